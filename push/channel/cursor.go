package channel

// Cursor says how far one subscription has been served. It is a plain value: copying it copies the subscription's whole state.
// The zero Cursor is not useful; [Log.Subscribe] makes them.
type Cursor struct {
	at    uint64 // the subscriber has everything up to here that it is meant to have
	start uint64 // at + 1 as of the last time the server set the cursor; older bytes at the client are not to be relied on
	level uint64 // at, as of the last time a read reached the head since the cursor was set; 0 before
	mark  uint64 // table mode, while sweeping: the head when the sweep began. Stream mode: the ordinal of the entry at the cursor

	slot     uint32 // while sweeping: the next row slot to look at
	state    state
	restarts uint8 // how often, in a row, filling had to begin again
}

type state uint8

const (
	settled  state = iota
	sweeping       // the client holds rows as of at; slots below slot are as new as mark or newer
	filling        // a sweep for a client that holds nothing but what this sweep sent
	blind          // stream mode: mark says nothing, for what lies at the cursor was never in this log
)

// maxRestarts is the restart in a row at which a reader whose filling is overtaken by evictions is called too slow.
const maxRestarts = 3

// Offset is the cursor's offset: the position from which a client that was told of all its deliveries would resume. While a table is
// being filled from nothing there is no such position, and it is 0.
func (c Cursor) Offset() uint64 { return c.at }

// Sweeping reports whether the cursor is in the midst of a sweep, so that rows it has sent may be newer than its offset.
func (c Cursor) Sweeping() bool { return c.state == sweeping || c.state == filling }

// set is the server moving the cursor to a place that the reading so far did not lead to.
func (c Cursor) set(at uint64) Cursor {
	return Cursor{at: at, start: at + 1, restarts: c.restarts}
}

// fill begins a sweep from nothing that is to end at head.
func (c Cursor) fill(head uint64) Cursor {
	c = c.set(0)
	c.state, c.mark = filling, head
	return c
}

// settle ends a sweep. Rows beyond its mark may have been sent, so no delta builds on this cursor until a read reached the head.
func (c Cursor) settle() Cursor {
	c.at, c.level, c.mark, c.slot, c.restarts, c.state = c.mark, 0, 0, 0, 0, settled
	return c
}

// known is the offset up to which the client's table needs no removals: what is gone by then is not in it. For one that is being filled from
// nothing that is the head at which filling began. In a stream it is the cursor's offset.
func (c Cursor) known() uint64 {
	if c.state == filling {
		return c.mark
	}
	return c.at
}

// held is the offset up to which the client is known not to hold rows whose tags did not match.
func (c Cursor) held() uint64 {
	if c.state == filling {
		return c.mark
	}
	return c.level
}
