// Package link is a broker at the other end of a link: the gateway's side of package push/link. A gateway has no message queue of its own. It asks hubs,
// which hold the channels, and gets from them what its clients want.
//
//	follower ◄── attachment ◄── Follow stream ◄── hub
//	                 │  └── interest ──► Interest ──►
//	                 └── catch-up ◄───── Load ◄──────
//	Publish, Load, Head, control, leases ◄──────────►
//
// # Where things are
//
// A [Placement] says which hubs a partition may be asked of, the best first. All that concerns a partition uses one connection to the first hub that can
// be reached, so the publications of a channel come one way only. Control messages and leases go to any hub.
//
// # When a connection ends
//
// An attachment knows the offset up to which its follower has everything. When its stream ends, it opens another one, to the same hub or the next, says
// what it wants, loads the publications between that offset and the beginning of the stream, and goes on. The follower notices nothing. It is told of
// a gap in a channel if the hub does not have these publications any more, and of a reset if the partition has a new epoch. The same happens if the hub
// has left something out because the link was too slow.
//
// Operations that are under way fail, and it is unknown whether they took effect. An operation that finds no connection waits for one, for
// [Options.Timeout] at most.
//
// # Goroutines
//
// Each attachment and each listener owns a goroutine, and while its interest changes, a second one. One more, of the broker, moves attachments when
// the placement changes. An attempt to connect has one, and a connection the one that reads it. Close ends them all.
package link
