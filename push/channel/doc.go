// Package channel is the core of the platform: a channel is a log that may compact itself, and a subscription is a cursor into that log. There
// is no queue for each subscriber. A slow subscriber is a cursor that is read late. In table and value mode a late read conflates: it returns
// only the newest entry of each key.
//
// The package is pure: it starts no goroutine, reads no clock and does no I/O. It takes no locks: the owner of a [Log] ensures that an append
// and a read do not overlap. Entries are immutable once appended and may be shared freely.
//
// # What a log keeps
//
// A log holds entries in the order of their offsets. The offsets come from the broker's sequence; they increase, but are not consecutive. Stream
// mode keeps all entries within the retention. Table mode keeps the newest entry of each key, and removals as tombstones for a while. Value mode
// keeps one entry.
//
// When a newer entry replaces one of the same key, that is compaction, and nothing is lost. When a stream entry or a tombstone is evicted,
// readers that have not read it lose something. The log remembers this in one number, the floor: the oldest offset from which a reader misses
// nothing.
//
// # How a cursor is read
//
// [Log.Read] does not change its cursor. It returns deliveries, each with the cursor after that delivery, and the cursor after all of them. The
// caller stores the cursor of the last delivery that the socket accepted ([Commit]). The rest is forgotten, and a later read returns its newest
// version.
//
//	stream   Entries above the cursor, in offset order. A cursor below the floor is first told how many entries it lost.
//	table    If all rows above the cursor fit the budget, they come in offset order. Otherwise a sweep begins: it remembers the
//	         head H and visits the row slots in an order that never changes. It delivers the newest version of every row above the
//	         cursor, in full and without an offset, except for the last delivery, which carries H. Under overload, a read in offset
//	         order would never reach the hottest row, which always moves on to the end; a sweep reaches every row once.
//	         A cursor below the floor is told to clear its table, and sweeps from nothing.
//
// [Log.ReadNext] is the fast path for the common case, a cursor right behind the newest entry. It needs no search and no allocation, and has the
// same result.
//
// # When a delta may be sent
//
// An entry may be sent as the difference to the entry that it replaced (Prev) exactly when start ≤ prev ≤ level. Level is the offset where the
// cursor last reached the head: up to there the subscriber holds the newest version of every row. Start is the offset at which the server last
// set the cursor: for older data there is only the subscriber's claim, and its bytes are not known.
//
// Simpler rules fail. With prev ≤ cursor, a read that was cut short may have skipped a row whose older version the client still holds. Without
// start, a resumed client gets a difference to bytes that it may have lost. The mutation tests plant both bugs. In a stream no entry is skipped,
// so level does not matter there: start ≤ prev ≤ cursor.
package channel
