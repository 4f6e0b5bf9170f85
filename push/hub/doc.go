// Package hub keeps channels and serves their subscribers.
//
// A hub follows the partitions of its broker. For every channel that somebody uses it holds a topic: the channel's log (package
// channel), the subscribers, and what is needed to load the log from the broker. A [Session] is a connected client as the hub sees
// it: subscriptions, each a cursor into a log, and a [Carrier] that takes frames without ever blocking.
//
// # Life of a publication
//
// [Hub.Publish] hands it to the broker, which orders and keeps it and delivers it to the partition's follower. The follower appends all
// of a batch to the topics' logs and lets go of each topic before anything is served. Then a round goes over the subscribers of all the
// topics that have something new: each session is tried once, and what it gets of these topics leaves in one write (round.go), together with
// the writes of some dozens of others (volley.go). Where the cursor is right behind, that is the frames that all share; everybody else is
// served by their session's own flush, which reads the logs from the cursors. A few subscribers are served by the follower itself, more by the workers; what arrives while these are
// busy comes together in the next round. Several publications of a channel that are due together are one frame, where the format has
// that.
//
// # Who waits for whom
//
// Lock order: session, then topic; partition and hub maps and the workers' queue are leaves of their own. A worker never waits for a session: one
// whose lock is taken gets its dirty bit set, and whoever holds the lock looks at the bit before and after letting go (flush.go
// says why that loses no wake-up). The lock of a session is held while its reply to a subscribe command is handed over, so that pushes
// follow the reply; everything else that happens under it is non-blocking. Because a client that does not read its replies keeps it for
// long, only what its own gateway asks for waits for it: control messages, renewals and the end of the hub go round it. No topic lock is
// held while a frame is written. The follower of a partition waits while a topic's fan-out is too far behind, or serves some subscribers
// itself, and waits for nothing else.
//
// # Who owns what
//
// The hub owns its workers, its janitor, the renewer of leases and the broker attachments; [Hub.Close] ends them and waits. A topic is
// loaded by a goroutine that the hub waits for. All logs together stay within [Options].LogBytes. Frames are built once per
// [Encoder], shared, immutable and left to the garbage collector. There is no queue per subscriber: a carrier that takes nothing costs
// nothing but its cursor's age.
package hub
