package workerpool

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Each queue has its own lock, and the number of idle workers is read without a lock. A submitter puts the task into a queue and then looks
// whether a worker is idle. A worker marks itself as idle and then looks into the queues. Both use atomic operations, which have one total
// order, so at least one of the two sees the other. While no worker is idle, workers take several tasks into their local queues. Each local
// queue has its own lock, for filling it and stealing from it. A worker that wants to be idle looks into the local queues too.
//
// Lock order: queue, then rrWorker. The executor's own lock is taken with neither.

// RoundRobin is a number of queues, each with its own lock. Tasks are dealt out to the queues in turn. Each worker serves the queues in turn and
// passes over empty ones, so no task waits while a worker is idle. There is no order.
//
// It does what [Shared] does, without the single lock that all submitters and workers contend for. That pays on machines with many processors
// and for very short tasks; with few processors Shared is cheaper. A task that blocks keeps one worker and nothing else.
type RoundRobin struct {
	o       Options
	batch   int // how many tasks a worker takes at once beyond the one that it runs; zero is none
	queues  []queue
	workers []rrWorker
	dealt   atomic.Uint64
	free    atomic.Int64 // idle workers, and workers that have not been started yet
	coming  atomic.Bool  // a called worker has not looked into the queues yet
	gone    chan struct{}

	panicked atomic.Uint64
	refused  atomic.Uint64
	dropped  atomic.Uint64 // from local queues; queues count their own

	mu sync.Mutex
	// Guarded by mu.
	idle    []*rrWorker // the last one to become idle is the first to be called
	started int         // how many of workers have been started, from the first on
	live    int         // started workers that have not ended
	callers int
	called  uint64 // tasks that callers ran, or are running
	closed  bool
	ended   bool
}

// queue is one of the queues of a RoundRobin.
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

// rrWorker is a worker of a RoundRobin.
type rrWorker struct {
	of   *RoundRobin
	wake chan struct{} // capacity 1
	at   int           // the index of the queue to look into next
	ran  atomic.Uint64 // tasks that have ended

	mu    sync.Mutex
	local localQueue // filled and stolen from under mu

	_ [64]byte // workers do not share a cache line
}

// NewRoundRobin makes a RoundRobin with options o, which may be nil. No goroutine is started before the first task.
func NewRoundRobin(o *Options) *RoundRobin {
	c := o.withDefaults(false)
	c.Queue = max(1, c.Queue)
	e := &RoundRobin{o: c, queues: make([]queue, c.Queues), workers: make([]rrWorker, c.Workers), gone: make(chan struct{})}
	for i := range e.workers {
		s := &e.workers[i]
		s.of, s.wake, s.at = e, make(chan struct{}, 1), i%c.Queues
	}
	if c.Policy != DropOldest {
		e.batch = min(batchSize, min(c.Queue, batchSize*4*c.Workers)*c.Queues/(4*c.Workers))
	}
	e.free.Store(int64(c.Workers))
	return e
}

// Submit submits a task, see [Executor]. The key is ignored. The executor is full if all queues are.
func (e *RoundRobin) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	_, err := e.deal([]func(){task}, e.o.Policy)
	return err
}

// TrySubmit submits a task without waiting, see [Executor]. The key is ignored.
func (e *RoundRobin) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	_, err := e.deal([]func(){task}, Refuse)
	return err
}

// SubmitBatch submits many tasks at once, see [Shared.SubmitBatch]. They go to one queue, as far as it has room; the free workers share them.
func (e *RoundRobin) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	if len(tasks) == 0 {
		return 0, nil
	}
	return e.deal(tasks, e.o.Policy)
}

// deal puts tasks into the next queue in turn, or into others if that queue is full. If all queues are full, deal applies the policy. It returns
// the number of accepted tasks.
func (e *RoundRobin) deal(tasks []func(), policy Policy) (n int, err error) {
	first := int(e.dealt.Add(1) % uint64(len(e.queues)))
	for {
		for i := range e.queues {
			q := &e.queues[(first+i)%len(e.queues)]
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
		if err := e.overflow(&e.queues[first], tasks[n], policy); err != nil {
			e.refused.Add(uint64(len(tasks) - n))
			return n, err
		}
		if n++; n == len(tasks) {
			return n, nil
		}
	}
}

// add accepts as many of the tasks as the queue has room for.
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

// fullLocked reports whether there is no room. If submitters wait, there is no room for others: take makes room and fills it before it releases
// the lock.
func (q *queue) fullLocked(bound int) bool { return q.tasks.n >= bound }

func (q *queue) addLocked(task func()) {
	q.tasks.push(task)
	q.n.Add(1)
	q.submitted++
}

// overflow applies the policy to a task that finds all queues full. The task was dealt to q. The caller counts a refused task.
func (e *RoundRobin) overflow(q *queue, task func(), policy Policy) error {
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case !q.fullLocked(e.o.Queue) || policy == DropOldest: // there is room after all, or dropping a task makes room
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

// take takes the next task: from the worker's local queue, else from the first queue that has one, in turn, else from the local queue of another
// worker. It returns nil if there is none.
func (s *rrWorker) take() func() {
	if task := s.local.take(); task != nil {
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
	for i := 0; i < len(e.workers) && task == nil; i++ {
		if other := &e.workers[i]; other.local.left() > 0 {
			other.mu.Lock()
			task = other.local.take()
			other.mu.Unlock()
		}
	}
	if task != nil && e.free.Load() > 0 && e.waiting() {
		e.call()
	}
	return task
}

// take takes the oldest task, or returns nil. While no worker is free, it also moves tasks to the local queue of s: at most half of the rest of
// the queue, so that other workers find tasks too.
func (q *queue) take(s *rrWorker) func() {
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
			s.local.fill(&q.tasks, n)
			s.mu.Unlock()
		}
	}
	q.n.Add(int64(-1 - n)) // after the fill, so that waiting always sees the tasks in one of the two places
	bound := s.of.o.Queue
	for q.line.first != nil && q.tasks.n < bound {
		w := q.line.first
		q.addLocked(w.task)
		q.line.leave(w, nil)
	}
	return task
}

// waiting reports whether there are tasks in a queue or in a local queue.
func (e *RoundRobin) waiting() bool {
	for i := range e.queues {
		if e.queues[i].n.Load() > 0 {
			return true
		}
	}
	for i := range e.workers {
		if e.workers[i].local.left() > 0 {
			return true
		}
	}
	return false
}

// call wakes an idle worker or starts a new one, if there is one and no other worker is coming. If there is more to do, that worker calls the
// next.
func (e *RoundRobin) call() {
	if e.coming.Load() || !e.coming.CompareAndSwap(false, true) {
		return
	}
	e.mu.Lock()
	var s *rrWorker
	if n := len(e.idle); n > 0 {
		s = e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.free.Add(-1)
		e.mu.Unlock()
		s.wake <- struct{}{}
		return
	}
	if e.started < len(e.workers) && !e.ended {
		s = &e.workers[e.started]
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
func (s *rrWorker) work() {
	s.of.coming.Store(false) // before the worker looks into the queues
	for s.run() {
	}
}

func (s *rrWorker) run() (again bool) {
	var task func()
	defer func() {
		if task == nil {
			return
		}
		v := recover()
		report(v, &s.of.panicked, s.of.o.Logger)
		s.ran.Add(1)
		if again = v != nil; !again { // runtime.Goexit: this goroutine ends in any case
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

// park waits until there may be a task. It returns false if the worker is to end.
func (s *rrWorker) park() bool {
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
	if e.waiting() { // a task may have come before this worker was marked as idle
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
	e.coming.Store(false) // before the worker looks into the queues
	return true
}

// Stats returns the sum of the counters of all queues.
func (e *RoundRobin) Stats() Stats {
	var s Stats
	e.mu.Lock()
	s.Workers = e.live
	s.Submitted = e.called
	s.Run = e.called - uint64(e.callers)
	e.mu.Unlock()
	for i := range e.workers {
		s.Run += e.workers[i].ran.Load()
	}
	s.Panicked, s.Refused, s.Dropped = e.panicked.Load(), e.refused.Load(), e.dropped.Load()
	for i := range e.queues {
		q := &e.queues[i]
		q.mu.Lock()
		s.add(Stats{Submitted: q.submitted, Dropped: q.dropped, Queued: q.tasks.n})
		q.mu.Unlock()
	}
	for i := range e.workers {
		s.Queued += e.workers[i].local.left()
	}
	s.Running = int(s.Submitted - s.Run - s.Dropped - uint64(s.Queued))
	return s
}

// Shutdown runs the accepted tasks and ends the executor, see [Shared.Shutdown].
func (e *RoundRobin) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e) }

// Close drops the tasks that have not begun and ends the executor, see [Shared.Close].
func (e *RoundRobin) Close() error {
	closeAll(e)
	return nil
}

// stop implements part.
func (e *RoundRobin) stop(drop bool) {
	for i := range e.queues { // all queues before the workers, so that a worker that sees closed sees the last task
		q := &e.queues[i]
		q.mu.Lock()
		q.closed = true
		q.line.rejectAll(ErrClosed)
		if drop {
			n := q.tasks.clear()
			q.n.Add(int64(-n))
			q.dropped += uint64(n)
		}
		q.mu.Unlock()
	}
	for i := range e.workers {
		if s := &e.workers[i]; drop {
			s.mu.Lock()
			e.dropped.Add(uint64(s.local.steal(batchSize, nil)))
			s.mu.Unlock()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.idle {
		s.wake <- struct{}{} // does not block: only one goroutine at a time may wake a worker
	}
	e.free.Add(int64(-len(e.idle)))
	e.idle = nil
	e.endLocked()
}

func (e *RoundRobin) done() <-chan struct{} { return e.gone }

// endLocked closes gone if the executor is closed, no task waits, and the last worker and the last caller have ended.
func (e *RoundRobin) endLocked() {
	if e.closed && !e.ended && e.live == 0 && e.callers == 0 && !e.waiting() {
		e.ended = true
		close(e.gone)
	}
}
