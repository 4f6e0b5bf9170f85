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
	pool *pool
	wake chan struct{} // capacity 1
	hand hand

	// Owned by the goroutine, or by who starts it.
	started bool

	// Guarded by the pool's mu.
	called  bool // by callLocked, and has not come yet
	busy    bool
	holding bool // in the pool's list of those with tasks in hand
	retired bool // ends if there is nothing to do
}

// callLocked takes an idle worker, or makes a new one, if there is a task for it and none is coming already. The caller calls it when it
// has released mu; there may be none, which is nil.
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

// call wakes or starts a worker that callLocked has returned. Nil is none.
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

// work is the goroutine of a worker. A task that panics or ends its goroutine unwinds run; the worker then goes on, on this goroutine
// or another.
func (w *worker) work() {
	for w.run() {
	}
}

// run runs tasks until there are none for this worker any more, or one panics: then it returns true.
func (w *worker) run() (again bool) {
	var task func()
	defer func() {
		if task == nil {
			return
		}
		v := recover()
		report(v, w.pool.panicked, w.pool.o.Logger)
		if again = v != nil; !again { // runtime.Goexit: this goroutine ends, whatever we do
			go w.work()
		}
	}()
	for {
		if task = w.hand.take(); task == nil {
			if task = w.next(); task == nil {
				return false
			}
		}
		task()
	}
}

// next waits for a task. Nil means that the worker is to end.
func (w *worker) next() func() {
	p := w.pool
	p.mu.Lock()
	if w.busy {
		w.busy = false
		p.busy--
		p.letInLocked()
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

// takeLocked takes a task, if there is one: of the queue, or else one that another worker has in hand. Workers take more than one
// only while all are busy, and then not more than their share. Who becomes idle looks into the hands of the others
// first, so a task in hand waits, behind one that blocks, only as long as every worker is busy.
func (w *worker) takeLocked() func() {
	p := w.pool
	var task func()
	switch {
	case p.tasks.n > 0:
		task = p.tasks.pop()
		if p.batch > 0 && p.tasks.n > 0 && len(p.idle) == 0 && p.workers == p.o.Workers {
			if n := min(p.batch, (p.tasks.n+p.workers-1)/p.workers); n > 0 {
				w.hand.fill(&p.tasks, n)
				w.holdLocked()
			}
		}
	case !w.robLocked():
		return nil
	default:
		task = w.hand.take() // the first of it is for this worker, and nobody else has seen it
	}
	w.busy = true
	p.busy++
	p.letInLocked()
	return task
}

// robLocked takes half of what another worker has in hand, and reports whether it found anything.
func (w *worker) robLocked() bool {
	for i := len(w.pool.holding) - 1; i >= 0; i-- {
		other := &w.pool.holding[i].hand
		if n := other.rob((other.left()+1)/2, &w.hand); n > 0 {
			if n > 1 {
				w.holdLocked()
			}
			return true
		}
	}
	return false
}

// holdLocked says that w has tasks in hand.
func (w *worker) holdLocked() {
	w.holding = true
	w.pool.holding = append(w.pool.holding, w)
}

// parkLocked makes w idle.
func (p *pool) parkLocked(w *worker) {
	p.idle = append(p.idle, w)
	if p.o.IdleTime == 0 || p.armed {
		return
	}
	p.armLocked()
}

// armLocked sets the alarm, which there is while workers are idle.
func (p *pool) armLocked() {
	p.armed, p.low = true, len(p.idle)
	if p.alarm == nil {
		p.alarm = time.AfterFunc(p.o.IdleTime, p.shrink)
	} else {
		p.alarm.Reset(p.o.IdleTime)
	}
}

// shrink is what the alarm calls. The workers at the bottom of the stack that were never reached since it was set have had nothing to do
// for all that time: they end. No worker has to know since when it is idle, so that being idle for a moment does not cost a look at
// the clock.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed {
		return
	}
	for _, w := range p.idle[:p.low] {
		w.retired = true
		w.wake <- struct{}{} // there is room: nobody else may wake it
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

// report counts a task that panicked with v, or ended its goroutine, which is nil, and says so. It is called while the stack of the
// task is still there.
func report(v any, panicked *atomic.Uint64, logger *slog.Logger) {
	panicked.Add(1)
	logger.Error("workerpool: task panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
}
