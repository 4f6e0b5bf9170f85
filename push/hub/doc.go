// Package hub keeps channels and serves their subscribers.
//
// A hub follows the partitions of its broker. For every channel that somebody uses it holds a topic: the channel's log (package
// channel), the subscribers, and what is needed to load the log from the broker. A [Session] is a connected client as the hub sees
// it: subscriptions, each a cursor into a log, and a [Carrier] that takes frames without ever blocking.
//
// # Life of a publication
//
// [Hub.Publish] hands it to the broker, which orders and keeps it and delivers it to the partition's follower. The follower appends it
// to the topic's log and lets go of the topic before it kicks the topic's chunks of subscribers; a chunk has one worker at a time,
// which serves a range of entries: for each session it tries the lock, and where the cursor is right behind, the frame that all
// share goes straight to the carrier. Everybody else is served by their session's own flush, which reads the log from the cursor.
//
// # Who waits for whom
//
// Lock order: session, then topic; partition and hub maps are leaves of their own. A worker never waits: a session whose lock is
// taken gets its dirty bit set, and whoever holds the lock looks at the bit before and after letting go (flush.go says why that loses
// no wake-up). The lock of a session is held while its reply to a subscribe command is handed over, so that pushes follow the reply;
// everything else that happens under it is non-blocking. Because a client that does not read its replies keeps it for long, only what
// its own gateway asks for waits for it: control messages, renewals and the end of the hub go round it. No topic lock is held while a
// frame is written. The follower of a partition waits while a topic's fan-out is too far behind, and for nothing else.
//
// # Who owns what
//
// The hub owns its workers, its janitor, the renewer of leases and the broker attachments; [Hub.Close] ends them and waits. A topic is
// loaded by a goroutine that the hub waits for. All logs together stay within [Options].LogBytes. Frames are built once per
// [Encoder], shared, immutable and left to the garbage collector. There is no queue per subscriber: a carrier that takes nothing costs
// nothing but its cursor's age.
package hub
