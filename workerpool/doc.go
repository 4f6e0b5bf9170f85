// Package workerpool runs tasks on goroutines that are there already: in the order of a key or in any order, with bounded queues, and a
// policy for when they are full.
//
//	e := workerpool.NewStrand(nil)
//	err := e.Submit(sessionID, func() { … }) // after all that was submitted for this session before
//	…
//	err = e.Shutdown(ctx) // runs what was accepted
//
// # When to use none
//
// Call the function. That costs nothing, keeps every order and pushes back by itself. A task on another goroutine costs tens of
// nanoseconds when that one is busy, and microseconds, its own and those of a processor that has to be woken, when it sleeps. An executor is
// for tasks that block, or take long, where who submits must not wait; and for bounding how many of them run at a time. For a
// few long-lived activities the go statement is right.
//
// # Which one
//
//	             order    a task that blocks holds up                fairness
//	Strand       per key  its key                                    keys take turns, Options.Burst tasks each
//	KeyedFixed   per key  all keys of its worker, one in N           first come, first served, for each worker
//	Shared       none     nothing, until all workers block           first come, first served
//	RoundRobin   none     nothing, until all workers block           queues take turns
//	Elastic      none     nothing, until Options.Workers block       first come, first served
//
// Where an order is needed and tasks may block, take [Strand]; where they surely do not, [KeyedFixed]. Without an order, [Shared] for
// tasks that compute, as many workers as processors; [Elastic] for tasks that wait, and a number of which nobody knows.
// [RoundRobin] is Shared without its one lock, for machines with many processors; with few it costs more.
//
// For the handlers of package session (Options.Executor there) no order is needed: a session has one task at a time, whichever executor
// runs it. So Elastic if handlers wait, Shared if they compute; see also when to use none.
//
// # What a task costs
//
// Two goroutines submit tasks of a thousand keys, four workers run them. Saturated is the processor time of a task beyond that of a
// function call, when there is always a next one, in ns: of tasks that do nothing and that compute for 0.5 µs, on one processor
// and on two, where the locks and the memory are fought for. Of 32 is the time on the wall for each task that does nothing, in ns, when
// one goroutine hands over 32 at a time by SubmitBatch. Paced is the time from Submit to the begin of a task when all workers sleep,
// in µs.
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
// Medians of short runs on a cloud machine (Intel Xeon, two processors, Go 1.26) on which other programs ran: the first four columns of two
// to eleven runs, told apart by how many processors were left to them, the others of five, whatever was left. Runs differ by a third and
// more, so figures that are closer are equal; the benchmarks of the package measure them anew.
//
// Only the go statement allocates for each task. A Strand allocates when a key comes, if none has left lately, and for keys that
// have very many tasks at a time: in this measurement 20 bytes a task.
//
// # Full queues
//
// Every queue is bounded, and [Policy] says what Submit does when there is no room: wait, refuse, drop the oldest, or run the task itself.
// Waiting is bounded as well, by Options.WaitTimeout, because a task that submits to its own executor may wait for itself. Inside a
// task use TrySubmit, and have an answer to ErrFull. What was refused, dropped, run and what panicked is counted: Stats.
//
// # Batches
//
// SubmitBatch hands many tasks over for one lock and one wake-up. Workers take tasks in batches as well, but only while all of them are
// busy; who becomes idle takes over what others have in hand and not begun. So nothing waits behind a task that blocks while a
// worker is idle, except in KeyedFixed, where the order wants it.
//
// # The end
//
// Close drops what has not begun, Shutdown runs it; both wait for what is running, which nobody can stop, and for the workers. A
// task may call them: then they do not wait. An executor that was neither closed nor shut down keeps its idle workers; those of Strand
// and Elastic end by themselves.
package workerpool
