package workerpool

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A pool is one queue and the workers that serve it. Shared and Elastic are one pool each, KeyedFixed has a pool for each worker, and a Strand
// runs its keys on a pool. This file has the side of the submitters, worker.go that of the workers, close.go the end.
//
// Whenever mu is free, this holds: if tasks are in the queue, and a worker is idle or one more may be started, then a worker has been called and
// is coming. Only one worker comes at a time. When it arrives, takes a task and sees another, it calls the next worker. So a task waits beside
// an idle worker no longer than a chain of such calls takes. A burst of short tasks does not wake or start more workers than there is work for,
// because each worker has to get a processor before it calls another.

// pool owns its workers' goroutines, which end after Close or Shutdown, and idle ones before.
type pool struct {
	// Set by newPool.
	o        Options
	batch    int            // how many tasks a worker takes at once beyond the one that it runs; zero is none
	gone     chan struct{}  // closed when the pool is closed and its last task and worker have ended
	panicked *atomic.Uint64 // counted without mu

	mu sync.Mutex
	// Guarded by mu.
	tasks     ring
	line      line
	idle      []*worker // the last one to become idle is the first to be called
	holding   []*worker // workers that may have tasks in their local queues
	workers   int
	busy      int  // workers that run a task
	callers   int  // goroutines that run a task in Submit
	coming    bool // a called worker has not arrived yet
	closed    bool // no more submissions
	ended     bool // gone is closed
	idleTimer *time.Timer
	timerSet  bool
	low       int // the least number of idle workers since the idle timer was set

	submitted, dropped, refused uint64
}

func newPool(o *Options) *pool {
	p := &pool{o: *o, gone: make(chan struct{}), panicked: new(atomic.Uint64)}
	if o.Policy != DropOldest && o.Workers <= math.MaxInt/8 {
		p.batch = min(batchSize, o.Queue/(4*o.Workers))
	}
	return p
}

// fullLocked reports whether there is no room. Workers that are free, or may be started, count as room: a task that was accepted for them is in
// the queue until they take it. If submitters wait, there is no room for others, because the goroutine that makes room calls admitLocked before
// it releases mu.
func (p *pool) fullLocked() bool { return p.tasks.n-p.o.Queue >= p.o.Workers-p.busy }

// addLocked accepts a task.
func (p *pool) addLocked(task func()) {
	p.tasks.push(task)
	p.submitted++
}

// trySubmit implements TrySubmit.
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

// submit implements Submit.
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

// submitBatch accepts tasks until one is refused, and returns the number of accepted tasks.
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

// overflow handles a task that finds the queue full, by the policy. It releases mu.
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

// await waits until w, which is in the line, gets its result, or gives up after limit. The caller does not hold mu, which guards the line and
// the counter refused.
func await(mu *sync.Mutex, l *line, w *waiter, limit time.Duration, refused *uint64) error {
	err, told := w.await(limit)
	mu.Lock()
	defer mu.Unlock()
	if !told {
		if w.in {
			l.leave(w, ErrFull)
		}
		err = <-w.result // ErrFull from leave, or a result that came at the last moment
	}
	if err != nil {
		*refused++
	}
	l.recycle(w)
	return err
}

// admitLocked moves tasks of waiting submitters into the queue while there is room.
func (p *pool) admitLocked() {
	for p.line.first != nil && !p.fullLocked() {
		w := p.line.first
		p.addLocked(w.task)
		p.line.leave(w, nil)
	}
}

// resume puts a task of the Strand that owns the pool into the queue, which always has room for it. The task is added even if the pool is
// closed: the pool drops it only after that. The caller is on one of the workers, or knows that the pool is not closed. resume returns the
// worker to call.
func (p *pool) resume(task func()) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(task)
	return p.callLocked()
}

// stats returns the counters.
func (p *pool) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Submitted: p.submitted, Dropped: p.dropped, Refused: p.refused, Panicked: p.panicked.Load(),
		Queued: p.tasks.n, Running: p.busy + p.callers, Workers: p.workers,
	}
	for _, w := range p.holding {
		s.Queued += w.local.left()
	}
	s.Run = s.Submitted - s.Dropped - uint64(s.Queued) - uint64(s.Running)
	return s
}
