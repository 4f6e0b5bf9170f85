package channel

import (
	"iter"
	"slices"

	"github.com/sluice-push/sluice/push"
)

// Outcome says what became of a position with which a client subscribes.
type Outcome uint8

// The outcomes of subscribing.
const (
	// Fresh: the client starts anew, and must be told so if it asked for more. A stream is read from its head on, a table is filled
	// from nothing. So it is also where a client would be sent more removals than there are rows.
	Fresh Outcome = iota
	// Resumed: the client is sent exactly what it does not have yet.
	Resumed
	// Ahead: the position is above the log's head, so this log may be behind its source. Ask the source for its head once: if that
	// is not above the position either, start fresh; otherwise the cursor is right and waits, and nothing at or below the position
	// is delivered.
	Ahead
)

// fewRemovals is how many removals more than there are rows a client is sent rather than have it begin afresh.
const fewRemovals = 128

// Subscribe returns the cursor of a new subscription. since is the position the client resumes from, with the epoch that its view
// was told ([View.Epoch]); nil when it asks for nothing.
func (l *Log) Subscribe(since *push.Position, v *View) (Cursor, Outcome) {
	if since == nil || since.Epoch == "" || since.Epoch != v.Epoch(l.Epoch()) || since.Offset < l.floor || since.Offset > push.MaxOffset {
		return l.fresh(), Fresh
	}
	if l.table != nil && l.table.removedSince(since.Offset, l.table.live()+fewRemovals) {
		return l.fresh(), Fresh
	}
	c := Cursor{}.set(since.Offset)
	if l.stream != nil {
		c = l.count(c)
	}
	if since.Offset > l.head {
		return c, Ahead
	}
	return c, Resumed
}

func (l *Log) fresh() Cursor {
	if l.stream == nil && !l.empty() {
		return Cursor{}.fill(l.head)
	}
	c := Cursor{}.set(l.head)
	c.level = l.head // the client holds nothing, and there is nothing to hold
	if l.stream != nil {
		c.mark = l.ordinal
	}
	return c
}

// count finds the ordinal at which a stream cursor stands.
func (l *Log) count(c Cursor) Cursor {
	i := l.stream.above(c.at)
	switch {
	case c.at < l.floor || c.at > l.head:
		c.state = blind
	case i < l.stream.len():
		c.mark = l.stream.at(i).Ordinal - 1
	default:
		c.mark = l.ordinal
	}
	return c
}

// Rebase moves the cursor of a live subscription from an earlier log of the same channel and epoch to this one, which was loaded
// anew. What the client has stays as it was told; what was evicted in between is found out by the next Read.
func (l *Log) Rebase(c Cursor) Cursor {
	moved := c.set(c.at)
	if l.stream != nil {
		return l.count(moved)
	}
	if c.state == filling {
		// Some rows were sent, but the client has no position: it may hold rows whose removal this log never saw.
		moved.at, moved.start = 0, 1
		moved.state, moved.mark = filling, 0
		if l.floor == 0 {
			moved.state = settled
		}
	}
	return moved
}

// Since returns up to limit entries above offset, oldest first; of a table the live rows among them. A negative limit means all.
func (l *Log) Since(offset uint64, limit int) []*Entry {
	if limit < 0 {
		limit = l.Len()
	}
	if l.stream != nil {
		entries := l.stream.entries[l.stream.front+l.stream.above(offset):]
		return slices.Clone(entries[:min(limit, len(entries))])
	}
	var out []*Entry
	first, _ := l.above(Cursor{at: offset}, nil, Everything)
	for slot := first; slot != none && len(out) < limit; slot = l.newer(slot) {
		if e := l.row(slot); !e.Removed() {
			out = append(out, e)
		}
	}
	return out
}

// Before returns up to limit entries below offset, newest first; of a table the live rows among them. A negative limit means all.
func (l *Log) Before(offset uint64, limit int) []*Entry {
	if limit < 0 {
		limit = l.Len()
	}
	if l.stream != nil {
		below := 0
		if offset > 0 {
			below = l.stream.above(offset - 1)
		}
		entries := l.stream.entries[l.stream.front : l.stream.front+below]
		out := slices.Clone(entries[max(0, below-limit):])
		slices.Reverse(out)
		return out
	}
	var out []*Entry
	for slot := l.newestSlot(); slot != none && len(out) < limit; slot = l.older(slot) {
		if e := l.row(slot); e.Offset < offset && !e.Removed() {
			out = append(out, e)
		}
	}
	return out
}

// Entries yields all that is kept, in offset order, remembered removals included: what another log of the same channel has to be
// given, together with the floor, to answer as this one does. The log must not be changed meanwhile.
func (l *Log) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if l.stream != nil {
			for i := range l.stream.len() {
				if !yield(l.stream.at(i)) {
					return
				}
			}
			return
		}
		first, _ := l.above(Cursor{}, nil, Everything)
		for slot := first; slot != none; slot = l.newer(slot) {
			if !yield(l.row(slot)) {
				return
			}
		}
	}
}
