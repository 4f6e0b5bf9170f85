package channel

// Cursor is the position of one subscription in a [Log]. It is a plain value: a copy holds the subscription's whole state. The zero Cursor is
// not useful; [Log.Subscribe] returns cursors.
type Cursor struct {
	at    uint64 // the subscriber has everything that is meant for it up to this offset
	start uint64 // at + 1 when the server last set the cursor; the client's older data is not reliable
	level uint64 // at, when a read last reached the head since the cursor was set; 0 before that
	mark  uint64 // table mode, while sweeping: the head when the sweep began. Stream mode: the ordinal of the entry at the cursor

	slot     uint32 // while sweeping: the next row slot to read
	state    state
	restarts uint8 // how many times in a row the filling had to start again
}

type state uint8

const (
	settled        state = iota
	sweeping             // the client's rows are those of offset at; rows below slot are as new as mark or newer
	filling              // a sweep for a client that holds only the rows that this sweep has sent
	unknownOrdinal       // stream mode: mark is unknown, because the entry at the cursor was never in this log
)

// maxRestarts is the restart in a row, forced by evictions that overtook the filling, at which a read reports TooSlow instead.
const maxRestarts = 3

// Offset returns the offset from which a client would resume if it got all deliveries so far. It is 0 while a table is being filled from
// nothing, because then no such offset exists.
func (c Cursor) Offset() uint64 { return c.at }

// Sweeping reports whether a sweep is in progress. Rows that the sweep has sent may be newer than the cursor's offset.
func (c Cursor) Sweeping() bool { return c.state == sweeping || c.state == filling }

// set returns a cursor that the server, not a read, moves to an offset.
func (c Cursor) set(at uint64) Cursor {
	return Cursor{at: at, start: at + 1, restarts: c.restarts}
}

// fill returns a cursor that begins a sweep from nothing, which ends at head.
func (c Cursor) fill(head uint64) Cursor {
	c = c.set(0)
	c.state, c.mark = filling, head
	return c
}

// settle returns the cursor after the end of its sweep. The sweep may have sent rows newer than its mark, so no delta builds on this cursor
// until a read reaches the head.
func (c Cursor) settle() Cursor {
	c.at, c.level, c.mark, c.slot, c.restarts, c.state = c.mark, 0, 0, 0, 0, settled
	return c
}

// known returns the offset up to which the client needs no removals, because its table does not have the removed rows. For a table that is
// filled from nothing, this is the head at which the filling began. In a stream it is the cursor's offset.
func (c Cursor) known() uint64 {
	if c.state == filling {
		return c.mark
	}
	return c.at
}

// held returns the offset up to which the client is known not to hold rows whose tags did not match.
func (c Cursor) held() uint64 {
	if c.state == filling {
		return c.mark
	}
	return c.level
}
