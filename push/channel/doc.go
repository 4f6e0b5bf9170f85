// Package channel is the heart of the platform: a channel is a log that may compact itself, and a subscription is a cursor into
// it. There is no queue per subscriber anywhere; a slow subscriber is one whose cursor is read late, and reading late is what
// conflation is.
//
// The package is pure: it starts no goroutine, reads no clock and does no I/O. Nothing in it locks; the owner of a [Log] makes sure
// that appending and reading do not overlap. Entries are immutable once appended and may be shared freely.
//
// # What a log keeps
//
// A log holds entries in the order of their offsets, which come from outside (the broker's sequence) and are increasing but not
// consecutive. In stream mode it keeps all entries within its retention; in table mode the newest entry of each key, removals
// included (as tombstones, for a while); in value mode one entry. Superseding an entry by a newer one of the same key is compaction
// and loses nothing. Evicting a stream entry or a tombstone is loss for whoever had not read it, and is remembered in one number:
// the floor, the oldest offset from which a reader misses nothing.
//
// # How a cursor is read
//
// [Log.Read] never changes the cursor it is given. It returns deliveries, each with the cursor as it is once that delivery was
// taken, and the cursor at the end; the caller stores the one that corresponds to what the socket accepted ([Commit]). What was
// not taken is forgotten and read again later, newer.
//
//	stream   entries above the cursor in offset order. A cursor below the floor is first told how many it lost.
//	table    when all rows above the cursor fit the budget, they come in offset order. Otherwise a sweep begins: the head H is
//	         remembered, the row slots are walked in an order that never changes, and the newest version of every row above the
//	         cursor is delivered in full and without an offset, except the last, which carries H. Under overload, reading in offset
//	         order would never reach the hottest row, because it always moves on to the end; a sweep reaches every row once.
//	         A cursor below the floor is told to clear its table, and sweeps from nothing.
//
// [Log.Follow] is the short cut for the common case, a cursor right behind the newest entry: no search, no allocation, the same
// result.
//
// # When a delta may be sent
//
// An entry may be sent as the difference to the one it replaced (Prev) exactly when start ≤ prev ≤ level. Level is where the cursor
// last reached the head: up to there the subscriber holds the newest version of everything. Start is where the server last set the
// cursor: of what lies before, the subscriber's bytes are not known, only its word. Simpler rules fail: with prev ≤ cursor, a read that
// was cut short has passed a row by whose older version the client still holds; without start, a resumed client is sent a difference to
// bytes it may have lost. The law tests plant both. In a stream no entry is passed by, so there level does not matter: start ≤ prev ≤ cursor.
package channel
