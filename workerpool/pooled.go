package workerpool

import "context"

// Shared is one queue that all workers serve: each task is begun, in the order they came, by the first worker that is free. It is
// what a buffered channel with N receivers is, and cheaper when it is busy.
//
// A task that blocks keeps one worker. Nothing waits while a worker is idle; when as many tasks block as there are workers, everything
// waits.
type Shared struct{ pool *pool }

// NewShared makes a Shared. Options may be nil. Nothing runs until the first task comes.
func NewShared(o *Options) *Shared {
	c := o.withDefaults(false)
	return &Shared{newPool(&c)}
}

// Submit hands a task over, see [Executor]. The key means nothing.
func (e *Shared) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.submit(task)
}

// TrySubmit hands a task over without waiting, see [Executor].
func (e *Shared) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.trySubmit(task)
}

// SubmitBatch is Submit for each of the tasks in turn, for the price of little more than one. It returns how many were accepted; if those
// are not all, the error says why the next one was not. The slice is the caller's again when it returns.
func (e *Shared) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	return e.pool.submitBatch(tasks)
}

// Stats returns the counters.
func (e *Shared) Stats() Stats { return e.pool.stats() }

// Shutdown refuses new tasks, and returns when all that were accepted have ended and the workers are gone. If ctx is done before, what
// has not begun is dropped and counted, and the error is that of ctx: tasks that are running cannot be stopped, and end when they
// end. Called by a task, of this or another executor, for they cannot be told apart, it does not wait, and returns nil at once: the
// queue is then drained without regard to ctx. May be called again, and with Close.
func (e *Shared) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.pool) }

// Close refuses new tasks, drops and counts those that have not begun, and waits for those that are running. Called by a task, of this
// or another executor, it does not wait. Who waits inside a task for a goroutine that calls Close waits for ever. Closing again
// waits again, and does nothing else. The error is always nil.
func (e *Shared) Close() error {
	closeAll(e.pool)
	return nil
}

// Elastic is a queue whose workers come and go: when a task comes and no worker is idle, another one is started, up to Options.Workers,
// and only then tasks wait in the queue. The worker that became idle last gets the next task, so that those that are not needed stay
// idle, and end after Options.IdleTime. It is for tasks that block, of which nobody knows how many there will be: like a go
// statement for each, but bounded, and mostly on goroutines that exist already and have a stack of the right size.
//
// One worker is started or woken at a time; it calls the next when it has a processor and there is still work. Short tasks are therefore
// run by few workers, however many are allowed.
type Elastic struct{ pool *pool }

// NewElastic makes an Elastic. Options may be nil. Nothing runs until the first task comes, and nothing does when all workers have ended.
func NewElastic(o *Options) *Elastic {
	c := o.withDefaults(true)
	return &Elastic{newPool(&c)}
}

// Submit hands a task over, see [Executor]. The key means nothing.
func (e *Elastic) Submit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.submit(task)
}

// TrySubmit hands a task over without waiting, see [Executor].
func (e *Elastic) TrySubmit(_ uint64, task func()) error {
	mustBeTask(task)
	return e.pool.trySubmit(task)
}

// SubmitBatch hands many tasks over at once, see [Shared.SubmitBatch].
func (e *Elastic) SubmitBatch(_ uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	return e.pool.submitBatch(tasks)
}

// Stats returns the counters.
func (e *Elastic) Stats() Stats { return e.pool.stats() }

// Shutdown runs what was accepted and ends, see [Shared.Shutdown].
func (e *Elastic) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.pool) }

// Close drops what has not begun and ends, see [Shared.Close].
func (e *Elastic) Close() error {
	closeAll(e.pool)
	return nil
}
