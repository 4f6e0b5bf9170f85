package workerpool

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Each queue has a lock of its own, and idle workers are known by a number that is read without a lock. Who submits puts the task into a
// queue and then looks whether a worker is idle; a worker says that it is idle and then looks into the queues. Both are atomic
// operations in one order, so one of the two sees the other. While no worker is idle they take several tasks in hand; each hand has a
// lock of its own, for filling and robbing it, and who wants to be idle looks into the hands as well as into the queues.
//
// Lock order: queue, then seat; the executor's own lock is taken with neither.

// RoundRobin is a number of queues, each with a lock of its own. Tasks are dealt out to the queues in turn, and each worker serves the queues in
// turn, passing over the empty ones, so that no task waits while a worker is idle. There is no order.
//
// It does what [Shared] does, without the one lock that all who submit and all workers meet at. That pays on machines with many
// processors and very short tasks; with few processors Shared is cheaper. A task that blocks keeps one worker and nothing else.
type RoundRobin struct {
	o      Options
	batch  int // how many tasks a worker takes in hand at most; zero: none
	queues []queue
	seats  []seat
	dealt  atomic.Uint64
	free   atomic.Int64 // idle workers, and those not started yet
	coming atomic.Bool  // a worker was called and has not looked into the queues yet
	gone   chan struct{}

	panicked atomic.Uint64
	refused  atomic.Uint64
	dropped  atomic.Uint64 // from hands; queues count their own

	mu sync.Mutex
	// Guarded by mu.
	idle    []*seat // the last one to become idle is the first to be called
	started int     // workers, the first of seats
	live    int     // those that have not ended
	callers int
	called  uint64 // tasks that callers ran, or are running
	closed  bool
	ended   bool
}

// queue is one of the queues.
type queue struct {
	mu sync.Mutex
	// Guarded by mu; n is read without it as well.
	tasks              ring
	line               line
	n                  atomic.Int64
	closed             bool
	submitted, dropped uint64

	_ [64]byte // queues do not share a cache line
}

// seat is a worker of a RoundRobin.
type seat struct {
	of   *RoundRobin
	wake chan struct{} // capacity 1
	at   int           // the queue that is next
	ran  atomic.Uint64 // tasks that have ended

	mu   sync.Mutex
	hand hand // filled and robbed under mu

	_ [64]byte // seats do not share a cache line
}

// NewRoundRobin makes a RoundRobin. Options may be nil. Nothing runs until the first task comes.
func NewRoundRobin(o *Options) *RoundRobin {
	c := o.withDefaults(false)
	c.Queue = max(1, c.Queue)
	e := &RoundRobin{o: c, queues: make([]queue, c.Queues), seats: make([]seat, c.Workers), gone: make(chan struct{})}
	for i := range e.seats {
		s := &e.seats[i]
		s.of, s.wake, s.at = e, make(chan struct{}, 1), i%c.Queues
	}
	if c.Policy != DropOldest {
		e.batch = min(batchSize, min(c.Queue, batchSize*4*c.Workers)*c.Queues/(4*c.Workers))
	}
	e.free.Store(int64(c.Workers))
	return e
}

// Submit hands a task over, see [Executor]. The key means nothing. Full means that all queues are.
func (e *RoundRobin) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	_, err := e.deal([]func(){task}, e.o.Policy)
	return err
}

// TrySubmit hands a task over without waiting, see [Executor].
func (e *RoundRobin) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	_, err := e.deal([]func(){task}, Refuse)
	return err
}

// SubmitBatch hands many tasks over at once, see [Shared.SubmitBatch]. They go to one queue, as far as it has room; the workers that
// are free share them.
func (e *RoundRobin) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	if len(tasks) == 0 {
		return 0, nil
	}
	return e.deal(tasks, e.o.Policy)
}

// deal puts tasks into the queue whose turn it is, or into others if that is full, and applies the policy when all are. It returns how
// many were accepted.
func (e *RoundRobin) deal(tasks []func(), policy Policy) (n int, err error) {
	turn := int(e.dealt.Add(1) % uint64(len(e.queues)))
	for {
		for i := range e.queues {
			q := &e.queues[(turn+i)%len(e.queues)]
			accepted, closed := q.add(tasks[n:], e.o.Queue)
			n += accepted
			if accepted > 0 && e.free.Load() > 0 {
				e.call()
			}
			if closed {
				e.refused.Add(uint64(len(tasks) - n))
				return n, ErrClosed
			}
			if n == len(tasks) {
				return n, nil
			}
		}
		if err := e.overflow(&e.queues[turn], tasks[n], policy); err != nil {
			e.refused.Add(uint64(len(tasks) - n))
			return n, err
		}
		if n++; n == len(tasks) {
			return n, nil
		}
	}
}

// add accepts as many of the tasks as there is room for.
func (q *queue) add(tasks []func(), bound int) (n int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, true
	}
	for n < len(tasks) && !q.fullLocked(bound) {
		q.addLocked(tasks[n])
		n++
	}
	return n, false
}

// fullLocked reports whether there is no room. While somebody waits there is none for others: take makes room, and fills it.
func (q *queue) fullLocked(bound int) bool { return q.tasks.n >= bound }

func (q *queue) addLocked(task func()) {
	q.tasks.push(task)
	q.n.Add(1)
	q.submitted++
}

// overflow is what is done with a task when all queues are full; q is the one it was dealt to. What is refused is counted by the caller.
func (e *RoundRobin) overflow(q *queue, task func(), policy Policy) error {
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case !q.fullLocked(e.o.Queue) || policy == DropOldest: // there is room after all, or we make it
		if q.fullLocked(e.o.Queue) {
			q.tasks.pop()
			q.n.Add(-1)
			q.dropped++
		}
		q.addLocked(task)
		q.mu.Unlock()
		if e.free.Load() > 0 {
			e.call()
		}
		return nil
	case policy == Wait:
		w := q.line.join(task, nil)
		q.mu.Unlock()
		var unused uint64
		return await(&q.mu, &q.line, w, e.o.WaitTimeout, &unused)
	}
	q.mu.Unlock()
	if policy == CallerRuns {
		return e.runHere(task)
	}
	return ErrFull
}

// runHere runs a task on the goroutine that submitted it.
func (e *RoundRobin) runHere(task func()) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.callers++
	e.called++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.callers--
		e.endLocked()
		e.mu.Unlock()
	}()
	runTask(task, &e.panicked, e.o.Logger)
	return nil
}

// take takes the task that is next in hand, or else the oldest of the first queue, from the one whose turn it is, that has one, or
// else one that another worker has in hand.
func (s *seat) take() func() {
	if task := s.hand.take(); task != nil {
		return task
	}
	e := s.of
	var task func()
	for i := 0; i < len(e.queues) && task == nil; i++ {
		q := &e.queues[s.at]
		s.at = (s.at + 1) % len(e.queues)
		if q.n.Load() > 0 {
			task = q.take(s)
		}
	}
	for i := 0; i < len(e.seats) && task == nil; i++ {
		if other := &e.seats[i]; other.hand.left() > 0 {
			other.mu.Lock()
			task = other.hand.take()
			other.mu.Unlock()
		}
	}
	if task != nil && e.free.Load() > 0 && e.waiting() {
		e.call()
	}
	return task
}

// take takes the oldest task, if there is one. While no worker is free it gives s others in hand: not more than half of what there is,
// for the sake of those who come next.
func (q *queue) take(s *seat) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tasks.n == 0 {
		return nil
	}
	task := q.tasks.pop()
	n := 0
	if s.of.free.Load() == 0 {
		if n = min(s.of.batch, (q.tasks.n+1)/2); n > 0 {
			s.mu.Lock()
			s.hand.fill(&q.tasks, n)
			s.mu.Unlock()
		}
	}
	q.n.Add(int64(-1 - n)) // after the fill: who looks sees the tasks here or there
	bound := s.of.o.Queue
	for q.line.first != nil && q.tasks.n < bound {
		w := q.line.first
		q.addLocked(w.task)
		q.line.leave(w, nil)
	}
	return task
}

// waiting reports whether there are tasks in a queue or in a hand.
func (e *RoundRobin) waiting() bool {
	for i := range e.queues {
		if e.queues[i].n.Load() > 0 {
			return true
		}
	}
	for i := range e.seats {
		if e.seats[i].hand.left() > 0 {
			return true
		}
	}
	return false
}

// call wakes an idle worker, or starts one, if there is one, and none is coming already. That one calls the next if there is more to do.
func (e *RoundRobin) call() {
	if e.coming.Load() || !e.coming.CompareAndSwap(false, true) {
		return
	}
	e.mu.Lock()
	var s *seat
	if n := len(e.idle); n > 0 {
		s = e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.free.Add(-1)
		e.mu.Unlock()
		s.wake <- struct{}{}
		return
	}
	if e.started < len(e.seats) && !e.ended {
		s = &e.seats[e.started]
		e.started++
		e.live++
		e.free.Add(-1)
		go s.work()
	} else {
		e.coming.Store(false)
	}
	e.mu.Unlock()
}

// work is the goroutine of a worker, as in a pool.
func (s *seat) work() {
	s.of.coming.Store(false) // before it looks
	for s.run() {
	}
}

func (s *seat) run() (again bool) {
	var task func()
	defer func() {
		if task == nil {
			return
		}
		v := recover()
		report(v, &s.of.panicked, s.of.o.Logger)
		s.ran.Add(1)
		if again = v != nil; !again { // runtime.Goexit: this goroutine ends, whatever we do
			go s.work()
		}
	}()
	for {
		if task = s.take(); task == nil {
			if !s.park() {
				return false
			}
			continue
		}
		task()
		s.ran.Add(1)
	}
}

// park waits until there may be something to do, or returns false: then the worker is to end.
func (s *seat) park() bool {
	e := s.of
	e.mu.Lock()
	if e.closed {
		defer e.mu.Unlock()
		if e.waiting() {
			return true
		}
		e.live--
		e.endLocked()
		return false
	}
	e.idle = append(e.idle, s)
	e.free.Add(1)
	e.mu.Unlock()
	if e.waiting() { // it came before we said that we are idle
		e.mu.Lock()
		if i := slices.Index(e.idle, s); i >= 0 {
			e.idle = slices.Delete(e.idle, i, i+1)
			e.free.Add(-1)
			e.mu.Unlock()
			return true
		}
		e.mu.Unlock()
	}
	<-s.wake
	e.coming.Store(false) // before it looks
	return true
}

// Stats returns the counters, of all queues together.
func (e *RoundRobin) Stats() Stats {
	var s Stats
	e.mu.Lock()
	s.Workers = e.live
	s.Submitted = e.called
	s.Run = e.called - uint64(e.callers)
	e.mu.Unlock()
	for i := range e.seats {
		s.Run += e.seats[i].ran.Load()
	}
	s.Panicked, s.Refused, s.Dropped = e.panicked.Load(), e.refused.Load(), e.dropped.Load()
	for i := range e.queues {
		q := &e.queues[i]
		q.mu.Lock()
		s.add(Stats{Submitted: q.submitted, Dropped: q.dropped, Queued: q.tasks.n})
		q.mu.Unlock()
	}
	for i := range e.seats {
		s.Queued += e.seats[i].hand.left()
	}
	s.Running = int(s.Submitted - s.Run - s.Dropped - uint64(s.Queued))
	return s
}

// Shutdown runs what was accepted and ends, see [Shared.Shutdown].
func (e *RoundRobin) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e) }

// Close drops what has not begun and ends, see [Shared.Close].
func (e *RoundRobin) Close() error {
	closeAll(e)
	return nil
}

// stop is described at part.
func (e *RoundRobin) stop(drop bool) {
	for i := range e.queues { // all of them before the workers are told, so that who sees closed sees the last task
		q := &e.queues[i]
		q.mu.Lock()
		q.closed = true
		q.line.turnAway(ErrClosed)
		if drop {
			n := q.tasks.clear()
			q.n.Add(int64(-n))
			q.dropped += uint64(n)
		}
		q.mu.Unlock()
	}
	for i := range e.seats {
		if s := &e.seats[i]; drop {
			s.mu.Lock()
			e.dropped.Add(uint64(s.hand.rob(batchSize, nil)))
			s.mu.Unlock()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.idle {
		s.wake <- struct{}{} // there is room: nobody else may wake it
	}
	e.free.Add(int64(-len(e.idle)))
	e.idle = nil
	e.endLocked()
}

func (e *RoundRobin) done() <-chan struct{} { return e.gone }

// endLocked notes that the executor is gone, if it is.
func (e *RoundRobin) endLocked() {
	if e.closed && !e.ended && e.live == 0 && e.callers == 0 && !e.waiting() {
		e.ended = true
		close(e.gone)
	}
}
