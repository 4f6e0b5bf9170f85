package channel

import (
	"iter"
	"slices"

	"github.com/sluice-push/sluice/push"
)

// Outcome is the result of a subscription with a position.
type Outcome uint8

// The outcomes of subscribing.
const (
	// Fresh means that the client starts without history, and must be told so if it asked to resume. A stream is read from its head on, and a
	// table is filled from nothing. Fresh also saves a client from a resume with more removals than there are rows.
	Fresh Outcome = iota
	// Resumed means that the client gets exactly the deliveries that it does not have yet.
	Resumed
	// Ahead means that the position is above the log's head, so this log may be behind its source. The caller asks the source for its head once.
	// If the position is above that head too, the caller starts the client fresh. Otherwise the cursor is right: it waits, and entries at or
	// below the position are not delivered.
	Ahead
)

// fewRemovals is how many more removals than rows a resuming client may get. With more, it starts fresh.
const fewRemovals = 128

// Subscribe returns the cursor of a new subscription. The argument since is the position from which the client resumes, with the epoch that it
// got for its view ([View.Epoch]); since is nil for a client that does not resume.
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
	c.level = l.head // the client holds no rows, and there are none
	if l.stream != nil {
		c.mark = l.ordinal
	}
	return c
}

// count sets the ordinal of a stream cursor.
func (l *Log) count(c Cursor) Cursor {
	i := l.stream.above(c.at)
	switch {
	case c.at < l.floor || c.at > l.head:
		c.state = unknownOrdinal
	case i < l.stream.len():
		c.mark = l.stream.at(i).Ordinal - 1
	default:
		c.mark = l.ordinal
	}
	return c
}

// Rebase moves the cursor of a live subscription to this log from an earlier log of the same channel and epoch. This log was loaded again. The
// client keeps its data. The next Read finds the entries that were evicted in between.
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

// Since returns up to limit entries above offset, oldest first. Of a table it returns only live rows. A negative limit means all.
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

// Before returns up to limit entries below offset, newest first. Of a table it returns only live rows. A negative limit means all.
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

// Entries yields all kept entries in offset order, including tombstones. Another log of the same channel that gets these entries and the floor
// gives the same answers as this one. The log must not change during the iteration.
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
