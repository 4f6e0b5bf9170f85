package workerpool

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A pool is one queue and the workers that serve it: what Shared and Elastic are, what KeyedFixed has for each worker, and what runs the
// keys of a Strand. This file has the side of who submits, worker.go that of the workers, close.go the end.
//
// What holds whenever nobody has mu: if tasks are in the queue, and a worker is idle or one more may be started, then one is coming. Only one
// comes at a time: when it is there, takes a task and sees another, it calls the next. So no task waits while a worker is idle, for
// longer than a chain of such calls takes, but a burst of short tasks does not wake or start more workers than there is
// work for: each has to get a processor before it calls another.

// pool owns its workers' goroutines, which end after Close or Shutdown, and idle ones before.
type pool struct {
	// Set by newPool.
	o        Options
	batch    int            // how many tasks a worker takes in hand at most; zero: none
	gone     chan struct{}  // closed when the pool is closed and nothing runs any more
	panicked *atomic.Uint64 // counted without mu

	mu sync.Mutex
	// Guarded by mu.
	tasks   ring
	line    line
	idle    []*worker // the last one to become idle is the first to be called
	holding []*worker // those with tasks in hand, perhaps
	workers int
	busy    int  // workers that have taken a task and not come back
	callers int  // goroutines that run a task in Submit
	coming  bool // a worker has been called and is not here yet
	closed  bool // no more submissions
	ended   bool // gone is closed
	alarm   *time.Timer
	armed   bool
	low     int // the least number of idle workers since the alarm was set

	submitted, dropped, refused uint64
}

func newPool(o *Options) *pool {
	p := &pool{o: *o, gone: make(chan struct{}), panicked: new(atomic.Uint64)}
	if o.Policy != DropOldest && o.Workers <= math.MaxInt/8 {
		p.batch = min(batchSize, o.Queue/(4*o.Workers))
	}
	return p
}

// fullLocked reports whether there is no room. Workers that are free, or may be started, are room as well: what has been accepted for
// them is in the queue until they come for it. While somebody waits there is no room for others, because whoever makes room calls
// letInLocked before mu is released.
func (p *pool) fullLocked() bool { return p.tasks.n-p.o.Queue >= p.o.Workers-p.busy }

// addLocked accepts a task.
func (p *pool) addLocked(task func()) {
	p.tasks.push(task)
	p.submitted++
}

// trySubmit is TrySubmit.
func (p *pool) trySubmit(task func()) error {
	p.mu.Lock()
	if p.closed || p.fullLocked() {
		p.refused++
		err := ErrFull
		if p.closed {
			err = ErrClosed
		}
		p.mu.Unlock()
		return err
	}
	p.addLocked(task)
	called := p.callLocked()
	p.mu.Unlock()
	called.call()
	return nil
}

// submit is Submit.
func (p *pool) submit(task func()) error {
	p.mu.Lock()
	if p.closed {
		p.refused++
		p.mu.Unlock()
		return ErrClosed
	}
	if p.fullLocked() {
		return p.overflow(task)
	}
	p.addLocked(task)
	called := p.callLocked()
	p.mu.Unlock()
	called.call()
	return nil
}

// submitBatch accepts tasks until one is refused, and returns how many that were.
func (p *pool) submitBatch(tasks []func()) (int, error) {
	for n := 0; ; n++ {
		p.mu.Lock()
		for n < len(tasks) && !p.closed && !p.fullLocked() {
			p.addLocked(tasks[n])
			n++
		}
		called := p.callLocked()
		p.mu.Unlock()
		called.call()
		if n == len(tasks) {
			return n, nil
		}
		if err := p.submit(tasks[n]); err != nil {
			p.mu.Lock()
			p.refused += uint64(len(tasks) - n - 1)
			p.mu.Unlock()
			return n, err
		}
	}
}

// overflow is what submit does when the queue is full. It releases mu.
func (p *pool) overflow(task func()) error {
	switch p.o.Policy {
	case DropOldest:
		if p.tasks.n > 0 {
			p.tasks.pop()
			p.dropped++
			p.addLocked(task)
			called := p.callLocked()
			p.mu.Unlock()
			called.call()
			return nil
		}
	case CallerRuns:
		p.submitted++
		p.callers++
		p.mu.Unlock()
		p.runHere(task)
		return nil
	case Wait:
		w := p.line.join(task, nil)
		p.mu.Unlock()
		return await(&p.mu, &p.line, w, p.o.WaitTimeout, &p.refused)
	}
	p.refused++
	p.mu.Unlock()
	return ErrFull
}

// runHere runs a task on the goroutine that submitted it.
func (p *pool) runHere(task func()) {
	defer func() {
		p.mu.Lock()
		p.callers--
		p.endLocked()
		p.mu.Unlock()
	}()
	runTask(task, p.panicked, p.o.Logger)
}

// await waits until w, which is in the line, is told its outcome, or gives up. The line and the counter of what is refused are guarded
// by mu, which the caller does not hold.
func await(mu *sync.Mutex, l *line, w *waiter, limit time.Duration, refused *uint64) error {
	err, told := w.await(limit)
	mu.Lock()
	defer mu.Unlock()
	if !told {
		if w.in {
			l.leave(w, ErrFull)
		}
		err = <-w.result // ours, or one that came at the last moment
	}
	if err != nil {
		*refused++
	}
	l.recycle(w)
	return err
}

// letInLocked moves tasks of those who wait into the queue while there is room.
func (p *pool) letInLocked() {
	for p.line.first != nil && !p.fullLocked() {
		w := p.line.first
		p.addLocked(w.task)
		p.line.leave(w, nil)
	}
}

// resume puts a task of the pool's owner into the queue. It has room always, and is put there also when the pool is closed, which drops
// it only after that; the caller is on one of the workers, or knows that the pool is not closed. It returns whom to call.
func (p *pool) resume(task func()) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(task)
	return p.callLocked()
}

// stats reads the counters.
func (p *pool) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Submitted: p.submitted, Dropped: p.dropped, Refused: p.refused, Panicked: p.panicked.Load(),
		Queued: p.tasks.n, Running: p.busy + p.callers, Workers: p.workers,
	}
	for _, w := range p.holding {
		s.Queued += w.hand.left()
	}
	s.Run = s.Submitted - s.Dropped - uint64(s.Queued) - uint64(s.Running)
	return s
}
