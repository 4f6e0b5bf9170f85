// Package hub keeps channels in memory and fans their publications out to the subscribed clients.
//
// A [Hub] follows the partitions of its broker. For every channel in use it holds a topic: the channel's log (package channel), its
// subscriptions, and the state of loading the log from the broker. A [Session] is a connected client as the hub sees it. It has
// subscriptions, each of which is a cursor into a log, and a [Carrier], which takes frames without blocking.
//
// # Life of a publication
//
// [Hub.Publish] passes the publication to the broker. The broker orders and stores it, and delivers it to the follower of the partition. The
// follower first appends a whole delivery to the logs of the topics, and holds no topic's lock when fan-out begins.
//
// Then a fan-out batch (fanout.go) takes all topics that have something new and serves each of their sessions once. All that a session gets of
// these topics leaves in one write. If the cursor is right behind the new entries, the subscription gets frames that it shares with others.
// Otherwise the flush of the session reads the log from the cursor. Sessions that get the same single frame are written to
// together ([BatchWriter]).
//
// The follower's goroutine serves a few subscribers itself and leaves larger numbers to the workers. What arrives while the workers are busy
// comes together in the next batch. If the wire format allows it, several publications of a channel that are due together share one frame.
//
// # Locks and waiting
//
// The lock order is session, then topic. The locks of partitions, of the hub's maps and of the workers' queue are leaves.
//
// A worker never waits for a session. If the session's lock is taken, the worker sets the session's dirty bit. The holder of the lock looks
// at the bit before and after it releases the lock; flush.go explains why no wake-up is lost.
//
// The session's lock is held while the reply to a subscribe command is handed over, so that pushes follow the reply. Everything else under it
// is non-blocking. A client that does not read its replies can keep the lock taken for long. Therefore only requests of the client's own
// gateway wait for it; control messages and the renewal of leases do not take it, and the end of the hub first disconnects the carrier.
//
// No topic's lock is held while a frame is written. The follower of a partition waits for one thing only: for fan-out that is too far behind a
// topic. It may also serve some subscribers itself, which does not block.
//
// # Gateways
//
// [Hub.Source] is the hub as a broker, which push/link serves to gateways (source.go, package relay). The goroutine that follows a partition calls its
// followers after the logs have the messages. Its loads acquire topics as subscriptions do.
//
// # Ownership
//
// The hub owns its workers, its janitor, the renewer of leases and the broker attachments. [Hub.Close] ends them and waits for them. A goroutine
// that the hub waits for loads each topic. The janitor keeps all logs together within [Options].LogBytes.
//
// A frame is built once per [Encoder], shared between sessions, immutable, and left to the garbage collector. There is no queue per subscriber:
// if a carrier takes nothing, the cursors of its session fall behind, and that is all.
package hub
