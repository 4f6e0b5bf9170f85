// Package workerpool runs tasks on long-lived goroutines: in the order of a key or in any order, with bounded queues and a policy for full
// queues.
//
//	e := workerpool.NewStrand(nil)
//	err := e.Submit(sessionID, func() { … }) // runs after all tasks that were submitted for this session before
//	…
//	err = e.Shutdown(ctx) // runs the accepted tasks
//
// # When to use none
//
// If possible, call the function. A call costs nothing, keeps every order and pushes back by itself. A task on another goroutine costs tens of
// nanoseconds if that goroutine is busy. If it sleeps, a task costs microseconds, for the task and for the processor that has to be woken. An
// executor is for tasks that block or take long while the submitter must not wait, and for bounding how many of them run at a time. For a few
// long-lived activities the go statement is right.
//
// # Which one
//
//	             order    a task that blocks holds up                fairness
//	Strand       per key  its key                                    keys alternate, Options.Burst tasks each
//	KeyedFixed   per key  all keys of its worker, one in N           first come, first served, for each worker
//	Shared       none     nothing, until all workers block           first come, first served
//	RoundRobin   none     nothing, until all workers block           queues alternate
//	Elastic      none     nothing, until Options.Workers block       first come, first served
//
// If an order is needed and tasks may block, take [Strand]; if they certainly do not block, [KeyedFixed]. Without an order, take [Shared] for
// tasks that compute, with as many workers as processors, and [Elastic] for an unknown number of tasks that wait. [RoundRobin] is Shared without
// its single lock, for machines with many processors; with few processors it costs more.
//
// For the handlers of package session (Options.Executor there) no order is needed: a session has one task at a time, whichever executor runs it.
// Take Elastic if handlers wait, Shared if they compute; see also "When to use none".
//
// # What a task costs
//
// In the measurement two goroutines submit tasks of a thousand keys, and four workers run them. The columns "empty" and "0.5 µs" are the
// processor time of a task beyond that of a function call, in ns, for saturated workers: for tasks that do nothing and for tasks that compute
// for 0.5 µs, on one processor and on two, where the processors contend for the locks and the memory. The column "of 32" is the elapsed time for
// each task that does nothing, in ns, if one goroutine submits 32 at a time with SubmitBatch. The column "paced" is the time from Submit to the
// start of a task if all workers sleep, in µs.
//
//	                       empty         0.5 µs        of 32  paced
//	processors             one    two    one    two           p50  p99
//	function call            0      0      0      0           0.5    1
//	go statement          1800   2100   2000   2500           5.4   29
//	one channel             99    300     97    480           3.3   20
//	a channel per worker    93    350     98    270           4.9   24
//	KeyedFixed              70    360    120    130     43    6.9   42
//	Shared                  81    360     85    360     58    5.2   27
//	RoundRobin             150    430    150    460     76    6.0   33
//	Elastic                 88    380     72    330     64    5.0   22
//	Strand                 190   1000    200    810     92    7.2   42
//
// The figures are medians of short runs on a cloud machine (Intel Xeon, two processors, Go 1.26) that ran other programs too. The first four
// columns are of two to eleven runs, grouped by the number of processors that were left to them; the others are of five runs, whatever was left.
// Runs differ by a third and more, so closer figures count as equal. The benchmarks of the package measure them anew.
//
// Only the go statement allocates for each task. A Strand allocates for a new key if no unused key is kept, and for keys that have very many
// tasks at a time: in this measurement 20 bytes a task.
//
// # Full queues
//
// Every queue is bounded, and [Policy] says what Submit does if there is no room: wait, refuse, drop the oldest task, or run the task itself.
// Options.WaitTimeout bounds the wait, because a task that submits to its own executor may wait for itself. Inside a task use TrySubmit, and
// handle ErrFull. Stats counts the tasks that were refused, dropped and run, and the panics.
//
// # Batches
//
// SubmitBatch submits many tasks for the price of one lock and one wake-up. Workers take tasks in batches as well, but only while all workers
// are busy. A worker that becomes idle takes over tasks that another worker has taken and not begun. So no task waits behind a task that blocks
// while a worker is idle, except in KeyedFixed, whose order requires it.
//
// # The end
//
// Close drops the tasks that have not begun, Shutdown runs them. Both wait for the running tasks, which cannot be stopped, and for the workers.
// If a task calls them, they do not wait. An executor that is neither closed nor shut down keeps its idle workers; those of Strand and Elastic
// end by themselves.
package workerpool
