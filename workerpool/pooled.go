package workerpool

import "context"

// Shared is one queue that all workers serve: the first free worker takes the oldest task. It does the same as a buffered channel with N
// receivers, and costs less under load.
//
// A task that blocks keeps one worker. No task waits while a worker is idle. If as many tasks block as there are workers, all other tasks wait.
type Shared struct{ pool *pool }

// NewShared makes a Shared with options o, which may be nil. No goroutine is started before the first task.
func NewShared(o *Options) *Shared {
	c := o.withDefaults(false)
	return &Shared{newPool(&c)}
}

// Submit submits a task, see [Executor]. The key is ignored.
func (e *Shared) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.submit(task)
}

// TrySubmit submits a task without waiting, see [Executor]. The key is ignored.
func (e *Shared) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.trySubmit(task)
}

// SubmitBatch submits the tasks in turn, as Submit does, at little more than the price of one. It returns the number of accepted tasks; if not
// all were accepted, the error says why the next one was not. The slice belongs to the caller again after the return.
func (e *Shared) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	return e.pool.submitBatch(tasks)
}

// Stats returns the counters.
func (e *Shared) Stats() Stats { return e.pool.stats() }

// Shutdown refuses new tasks, and returns when all accepted tasks have ended and the workers are gone. If ctx is done before that, the tasks
// that have not begun are dropped and counted, and Shutdown returns the error of ctx. Running tasks cannot be stopped; they go on.
//
// If a task calls Shutdown, Shutdown returns nil at once, and the queue is drained without regard to ctx. That holds for a task of any executor,
// because they cannot be told apart. Shutdown may be called again, and with Close.
func (e *Shared) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.pool) }

// Close refuses new tasks, drops and counts the tasks that have not begun, and waits for the running ones. If a task of this or another executor
// calls Close, Close does not wait. A task that waits for another goroutine that calls Close waits for ever. Closing again waits again, and does
// nothing else. The error is always nil.
func (e *Shared) Close() error {
	closeAll(e.pool)
	return nil
}

// Elastic is a queue whose number of workers follows the load. If a task comes and no worker is idle, another worker is started, up to
// Options.Workers; only beyond that do tasks wait in the queue. The worker that became idle last gets the next task, so that superfluous workers
// stay idle, and end after Options.IdleTime. Elastic is for tasks that block, in unknown numbers: it is like a go statement for each, but
// bounded, and mostly on goroutines that exist already and have a stack of the right size.
//
// One worker is started or woken at a time. When it has a processor and there is still work, it calls the next. Short tasks are therefore run by
// few workers, however many are allowed.
type Elastic struct{ pool *pool }

// NewElastic makes an Elastic with options o, which may be nil. No goroutine runs before the first task and after the last worker has ended.
func NewElastic(o *Options) *Elastic {
	c := o.withDefaults(true)
	return &Elastic{newPool(&c)}
}

// Submit submits a task, see [Executor]. The key is ignored.
func (e *Elastic) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.submit(task)
}

// TrySubmit submits a task without waiting, see [Executor]. The key is ignored.
func (e *Elastic) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.trySubmit(task)
}

// SubmitBatch submits many tasks at once, see [Shared.SubmitBatch].
func (e *Elastic) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	return e.pool.submitBatch(tasks)
}

// Stats returns the counters.
func (e *Elastic) Stats() Stats { return e.pool.stats() }

// Shutdown runs the accepted tasks and ends the executor, see [Shared.Shutdown].
func (e *Elastic) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.pool) }

// Close drops the tasks that have not begun and ends the executor, see [Shared.Close].
func (e *Elastic) Close() error {
	closeAll(e.pool)
	return nil
}
