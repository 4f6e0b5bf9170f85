package workerpool

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// worker is one goroutine of a pool.
type worker struct {
	pool  *pool
	wake  chan struct{} // capacity 1
	local localQueue

	// Owned by the worker's goroutine, and before it by the goroutine that starts it.
	started bool

	// Guarded by the pool's mu.
	called  bool // callLocked has chosen it, and it has not arrived yet
	busy    bool
	holding bool // in the pool's list holding
	retired bool // ends when it finds no task
}

// callLocked chooses an idle worker, or makes a new one, if there is a task for it and no other worker is coming. It returns nil if there is
// none to call. The caller calls the worker after it has released mu.
func (p *pool) callLocked() *worker {
	if p.coming || p.tasks.n == 0 {
		return nil
	}
	var w *worker
	if n := len(p.idle); n > 0 {
		w = p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.low = min(p.low, n-1)
	} else if p.workers < p.o.Workers {
		w = &worker{pool: p, wake: make(chan struct{}, 1)}
		p.workers++
	} else {
		return nil
	}
	w.called = true
	p.coming = true
	return w
}

// call wakes or starts a worker that callLocked has returned. A nil worker is allowed and ignored.
func (w *worker) call() {
	switch {
	case w == nil:
	case w.started:
		w.wake <- struct{}{}
	default:
		w.started = true
		go w.work()
	}
}

// work is the goroutine of a worker. A task that panics or ends its goroutine unwinds run. The worker then continues, on this goroutine or a new
// one.
func (w *worker) work() {
	for w.run() {
	}
}

// run runs tasks until the worker is to end. If a task panics, run returns true.
func (w *worker) run() (again bool) {
	var task func()
	defer func() {
		if task == nil {
			return
		}
		v := recover()
		report(v, w.pool.panicked, w.pool.o.Logger)
		if again = v != nil; !again { // runtime.Goexit: this goroutine ends in any case
			go w.work()
		}
	}()
	for {
		if task = w.local.take(); task == nil {
			if task = w.next(); task == nil {
				return false
			}
		}
		task()
	}
}

// next waits for a task and returns it. It returns nil if the worker is to end.
func (w *worker) next() func() {
	p := w.pool
	p.mu.Lock()
	if w.busy {
		w.busy = false
		p.busy--
		p.admitLocked()
	}
	if w.holding {
		w.holding = false
		i := slices.Index(p.holding, w)
		last := len(p.holding) - 1
		p.holding[i], p.holding[last] = p.holding[last], nil
		p.holding = p.holding[:last]
	}
	for {
		if w.called {
			w.called, p.coming = false, false
		}
		if task := w.takeLocked(); task != nil {
			called := p.callLocked()
			p.mu.Unlock()
			called.call()
			return task
		}
		if p.closed || w.retired {
			p.workers--
			p.endLocked()
			p.mu.Unlock()
			return nil
		}
		p.parkLocked(w)
		p.mu.Unlock()
		<-w.wake
		p.mu.Lock()
	}
}

// takeLocked takes a task from the queue, or else from the local queue of another worker. It returns nil if there is none. Workers take more
// than one task only while all are busy, and then at most their share. A worker that becomes idle steals from the local queues of the others
// first. So a task in a local queue waits behind a task that blocks only as long as every worker is busy.
func (w *worker) takeLocked() func() {
	p := w.pool
	var task func()
	switch {
	case p.tasks.n > 0:
		task = p.tasks.pop()
		if p.batch > 0 && p.tasks.n > 0 && len(p.idle) == 0 && p.workers == p.o.Workers {
			if n := min(p.batch, (p.tasks.n+p.workers-1)/p.workers); n > 0 {
				w.local.fill(&p.tasks, n)
				w.holdLocked()
			}
		}
	case !w.stealLocked():
		return nil
	default:
		task = w.local.take() // stealLocked has left a task in local, which no other worker can take while mu is held
	}
	w.busy = true
	p.busy++
	p.admitLocked()
	return task
}

// stealLocked takes half of the tasks in the local queue of another worker, and reports whether it found any.
func (w *worker) stealLocked() bool {
	for i := len(w.pool.holding) - 1; i >= 0; i-- {
		other := &w.pool.holding[i].local
		if n := other.steal((other.left()+1)/2, &w.local); n > 0 {
			if n > 1 {
				w.holdLocked()
			}
			return true
		}
	}
	return false
}

// holdLocked adds w to the workers that may have tasks in their local queues.
func (w *worker) holdLocked() {
	w.holding = true
	w.pool.holding = append(w.pool.holding, w)
}

// parkLocked adds w to the idle workers.
func (p *pool) parkLocked(w *worker) {
	p.idle = append(p.idle, w)
	if p.o.IdleTime == 0 || p.timerSet {
		return
	}
	p.armLocked()
}

// armLocked sets the idle timer, which runs while workers are idle.
func (p *pool) armLocked() {
	p.timerSet, p.low = true, len(p.idle)
	if p.idleTimer == nil {
		p.idleTimer = time.AfterFunc(p.o.IdleTime, p.shrink)
	} else {
		p.idleTimer.Reset(p.o.IdleTime)
	}
}

// shrink ends superfluous workers; the idle timer calls it. The workers at the bottom of the idle stack that were not reached since the timer
// was set have been idle for all that time: they end. Because the count low tells how many these are, workers need not record when they became
// idle, so a short idle time does not cost a reading of the clock.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timerSet = false
	if p.closed {
		return
	}
	for _, w := range p.idle[:p.low] {
		w.retired = true
		w.wake <- struct{}{} // does not block: only one goroutine at a time may wake a worker
	}
	p.idle = slices.Delete(p.idle, 0, p.low)
	if len(p.idle) > 0 {
		p.armLocked()
	} else {
		p.idle = nil
	}
}

// runTask runs a task on a goroutine that is not a worker.
func runTask(task func(), panicked *atomic.Uint64, logger *slog.Logger) {
	returned := false
	defer func() {
		if !returned {
			report(recover(), panicked, logger)
		}
	}()
	task()
	returned = true
}

// report counts and logs a task that panicked with v. If the task ended its goroutine, v is nil. report is called while the stack of the task
// still exists.
func report(v any, panicked *atomic.Uint64, logger *slog.Logger) {
	panicked.Add(1)
	logger.Error("workerpool: task panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
}
