package workerpool

import "context"

// KeyedFixed is a fixed number of workers with a queue each. The key selects the worker: the tasks of one key run one after the other, in the
// order in which they were submitted. It is the cheapest way to keep an order if tasks are short and do not block.
//
// A task that blocks holds up every key that shares its worker, one in N, even while other workers are idle. [Strand] avoids that. Each queue
// has its own bound: Submit finds the executor full if the key's queue is full.
type KeyedFixed struct {
	pools []*pool // with one worker each
	parts []part
}

// NewKeyedFixed makes a KeyedFixed with options o, which may be nil. It panics if the policy is CallerRuns, which keeps no order. A worker
// starts with the first task of its queue.
func NewKeyedFixed(o *Options) *KeyedFixed {
	c := o.withDefaults(false)
	c.ordered("KeyedFixed")
	e := &KeyedFixed{}
	workers := c.Workers
	c.Workers = 1
	for range workers {
		p := newPool(&c)
		e.pools, e.parts = append(e.pools, p), append(e.parts, p)
	}
	return e
}

// of returns the pool of a key.
func (e *KeyedFixed) of(key uint64) *pool { return e.pools[spread(key, len(e.pools))] }

// Submit submits a task, see [Executor]. The task runs after all tasks that were submitted before with the same key.
func (e *KeyedFixed) Submit(key uint64, task func()) error {
	mustBeTask(task)
	return e.of(key).submit(task)
}

// TrySubmit submits a task without waiting, see [Executor].
func (e *KeyedFixed) TrySubmit(key uint64, task func()) error {
	mustBeTask(task)
	return e.of(key).trySubmit(task)
}

// SubmitBatch submits many tasks of one key at once, see [Shared.SubmitBatch]. While it waits for room, tasks that other goroutines submit with
// the same key may come in between.
func (e *KeyedFixed) SubmitBatch(key uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	return e.of(key).submitBatch(tasks)
}

// Stats returns the sum of the counters of all queues.
func (e *KeyedFixed) Stats() Stats {
	var s Stats
	for _, p := range e.pools {
		s.add(p.stats())
	}
	return s
}

// Shutdown runs the accepted tasks and ends the executor, see [Shared.Shutdown].
func (e *KeyedFixed) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.parts...) }

// Close drops the tasks that have not begun and ends the executor, see [Shared.Close].
func (e *KeyedFixed) Close() error {
	closeAll(e.parts...)
	return nil
}
