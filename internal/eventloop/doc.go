// Package eventloop runs many connections on few operating system threads, with epoll (Linux).
//
// A [Loop] has a poller, a timing wheel and its members: connections. Its thread, a goroutine that is locked to an operating system thread, waits
// for events and dispatches them: it calls Dispatch of each member that has some, one after the other.
//
//	collect ──► work: ready, posted, timers ──► for each: sequence number odd, Dispatch, even ──► collect ...
//
// A Dispatch may block. A watchdog then finds that the sequence number stands still, and hands the loop off: another thread takes the rest of the
// work, and the blocked goroutine ends with its Dispatch. The sequence number is the thread's claim on the loop. The thread gives it up with a
// compare-and-swap, which fails if the loop has been handed off meanwhile. A member that is about to wait for its peer hands the loop
// off itself, by Release. After a hand-off the member is offloaded for some seconds: its owner runs it on goroutines of a [Pool]. See
// [OffloadGroup].
//
// Interest in bytes is edge triggered, which saves the kernel a second look at each ready connection; everything else is level triggered. One read a
// dispatch is enough, because the kernel looks at a connection when it reports it, and reports it again when something has come since.
// After a read that did not fill its buffer nothing is left, unless the report said that the peer has ended. After one that did fill
// it, or such a report, the interest is registered again (Rearm), and the kernel looks again.
//
// On other systems than Linux the package has only what needs no poller, such as [Ticker], [Pool] and [OffloadGroup].
package eventloop
