package channel

import (
	"math"

	"github.com/sluice-push/sluice/push"
)

// Budget bounds one read. The last entry may exceed Bytes, so that an entry larger than the budget gets through; both must be
// positive for anything to be read.
type Budget struct {
	Entries int
	Bytes   int // as push.Publication.Size counts
}

// Everything is a budget that no log exceeds.
var Everything = Budget{Entries: math.MaxInt, Bytes: math.MaxInt}

func (b Budget) spent() bool { return b.Entries <= 0 || b.Bytes <= 0 }

func (b *Budget) take(e *Entry) {
	b.Entries--
	b.Bytes -= e.Size()
}

// Status says why a read ended.
type Status uint8

// The outcomes of a read.
const (
	UpToDate Status = iota // there is nothing more to read
	More                   // the budget was spent
	TooSlow                // evictions overtook the reader several times in a row; it will not catch up at this rate
)

// Read appends to out what a subscription at cursor c, with view v, is to be sent next, within the budget. It returns the
// deliveries, the cursor once all of them are taken, and why it ended. It changes neither the log nor c, see [Commit].
func (l *Log) Read(c Cursor, v *View, b Budget, out []Delivery) ([]Delivery, Cursor, Status) {
	if b.spent() || c.at > l.head {
		// A position above the head: the client is ahead of this log, which has to catch up before there is anything new.
		if c.at >= l.head {
			return out, c, UpToDate
		}
		return out, c, More
	}
	r := reader{log: l, view: v, cursor: c, budget: b, out: out}
	var s Status
	if l.stream != nil {
		s = r.readStream()
	} else {
		s = r.readTable()
	}
	return r.out, r.cursor, s
}

// Follow is Read for the common case: the cursor is right behind e, the entry just appended. It reports false when it is not,
// or needs more than that one entry; then only Read can tell. The cursor to commit is the delivery's Next. It looks at nothing that
// changes, so that unlike all other methods it may run while the log is appended to.
func (l *Log) Follow(c Cursor, v *View, e *Entry) (Delivery, bool) {
	if c.state == sweeping || c.state == filling || c.at < e.After || c.at >= e.Offset || e.Op == push.Clear {
		return Delivery{}, false
	}
	d := Delivery{Entry: e, Offset: e.Offset, Delta: v.allowsDelta(c, e, l.policy.Mode)}
	var send bool
	if l.policy.Mode == push.Stream {
		send = v.Matches(e.Tags)
		c.mark, c.state = e.Ordinal, settled
	} else {
		d.Kind, send = v.choose(c, e)
	}
	if !send {
		d.Kind = Skip
	}
	c.at, c.level = e.Offset, e.Offset
	d.Delta = d.Delta && d.Kind == Put
	d.Next = c
	return d, true
}

// reader is the state of one Read.
type reader struct {
	log    *Log
	view   *View
	cursor Cursor
	budget Budget
	out    []Delivery
}

// deliver appends one delivery; the reader's cursor is already the one that follows it.
func (r *reader) deliver(d Delivery) {
	d.Next = r.cursor
	r.out = append(r.out, d)
	if d.Entry != nil {
		r.budget.take(d.Entry)
	}
}

// change returns what the difference of an entry is made of, if it may be sent as one.
func (r *reader) change(delta bool, e *Entry) *Change {
	if !delta {
		return nil
	}
	return r.log.Change(e)
}

func (r *reader) readStream() Status {
	l := r.log
	if r.cursor.at < l.floor {
		r.lose()
	}
	for i := l.stream.above(r.cursor.at); i < l.stream.len(); i++ {
		if r.budget.spent() {
			return More
		}
		e := l.stream.at(i)
		delta := r.view.allowsDelta(r.cursor, e, push.Stream)
		r.cursor.at, r.cursor.mark, r.cursor.state = e.Offset, e.Ordinal, settled
		if r.view.Matches(e.Tags) {
			r.deliver(Delivery{Entry: e, Kind: Put, Delta: delta, Change: r.change(delta, e), Offset: e.Offset})
		}
	}
	r.cursor.at, r.cursor.level, r.cursor.mark, r.cursor.state = l.head, l.head, l.ordinal, settled
	return UpToDate
}

// lose moves a cursor that is below the floor up to it and says how many entries it missed.
func (r *reader) lose() {
	l, c := r.log, r.cursor
	before := l.ordinal // the newest ordinal that is no longer there
	if oldest := l.stream.oldest(); oldest != nil {
		before = oldest.Ordinal - 1
	}
	lost := int64(-1)
	if c.state != blind && c.mark >= l.stream.gap {
		lost = int64(before - c.mark) //nolint:gosec // a count of entries
	}
	if lost == 0 { // evicted, but nothing that this cursor had not read
		r.cursor.at = l.floor
		return
	}
	r.cursor = c.set(l.floor)
	r.cursor.mark = before
	r.deliver(Delivery{Kind: Lost, Lost: lost, Offset: l.floor})
}

func (r *reader) readTable() Status {
	l := r.log
	// What was removed and forgotten after the client's table was as it is now cannot be told any more.
	if r.cursor.known() < l.floor {
		if r.cursor.state == filling {
			if r.cursor.restarts+1 >= maxRestarts {
				return TooSlow
			}
			r.cursor.restarts++
		}
		r.clear()
	}
	if r.cursor.state == settled {
		first, fits := l.above(r.cursor, r.view, r.budget)
		if fits {
			return r.readRows(first)
		}
		r.cursor.state, r.cursor.mark, r.cursor.slot = sweeping, l.head, 0
	}
	if s := r.sweep(); s == More {
		return More
	}
	first, fits := l.above(r.cursor, r.view, r.budget)
	if !fits {
		return More
	}
	return r.readRows(first)
}

// clear tells the client to forget its rows and begins to fill its table anew.
func (r *reader) clear() {
	l := r.log
	r.cursor = r.cursor.fill(l.head)
	d := Delivery{Kind: Clear}
	if slot, _ := r.next(0); slot == l.slots() {
		d.Offset = l.head // nothing follows that could carry it
	}
	r.deliver(d)
}

// readRows delivers the rows from slot on in the order of their offsets, all of them.
func (r *reader) readRows(slot int32) Status {
	l := r.log
	for ; slot != none; slot = l.newer(slot) {
		e := l.row(slot)
		kind, ok := r.view.choose(r.cursor, e)
		delta := kind == Put && r.view.allowsDelta(r.cursor, e, push.Table)
		r.cursor.at = e.Offset
		if ok {
			r.deliver(Delivery{Entry: e, Kind: kind, Delta: delta, Change: r.change(delta, e), Offset: e.Offset})
		}
	}
	r.cursor.at, r.cursor.level, r.cursor.restarts = l.head, l.head, 0
	return UpToDate
}

// sweep walks the slots from where the cursor's sweep stands and delivers what is newer than the cursor, until the budget is spent
// or the last slot is done. The last delivery of a sweep carries the offset the sweep leads to: that there is another one is certain
// when it was looked for, since a row to be sent stays one until it is sent; only an eviction could take it, and that clears.
func (r *reader) sweep() Status {
	l := r.log
	slot, kind := r.next(int32(r.cursor.slot)) //nolint:gosec // a slot number
	for slot < l.slots() {
		if r.budget.spent() {
			return More
		}
		d := Delivery{Entry: l.row(slot), Kind: kind}
		slot, kind = r.next(slot + 1)
		r.cursor.slot = uint32(slot) //nolint:gosec // a slot number
		if slot == l.slots() {
			d.Offset = r.cursor.mark
			r.cursor = r.cursor.settle()
		}
		r.deliver(d)
	}
	if r.cursor.Sweeping() {
		r.cursor = r.cursor.settle()
	}
	return UpToDate
}

// next returns the first slot, from slot on, whose row the sweep has to send, and as what; the number of slots when there is none.
func (r *reader) next(slot int32) (int32, Kind) {
	l := r.log
	for ; slot < l.slots(); slot++ {
		if e := l.row(slot); e != nil {
			if kind, ok := r.view.choose(r.cursor, e); ok {
				return slot, kind
			}
		}
	}
	return slot, Skip
}

// above finds the oldest row newer than the cursor, none if there is none, and reports whether all from there on fit the budget. It
// looks at no more of them than fit.
func (l *Log) above(c Cursor, v *View, b Budget) (first int32, fits bool) {
	first = none
	for slot := l.newestSlot(); slot != none; slot = l.older(slot) {
		e := l.row(slot)
		if e.Offset <= c.at {
			break
		}
		if _, ok := v.choose(c, e); ok {
			if b.spent() {
				return none, false
			}
			b.take(e)
		}
		first = slot
	}
	return first, true
}

// The rows of a table, and the one row of a value channel, seen alike.

func (l *Log) slots() int32 {
	switch {
	case l.table != nil:
		return int32(len(l.table.rows)) //nolint:gosec // two thousand million rows do not fit in memory
	case l.value != nil:
		return 1
	}
	return 0
}

func (l *Log) row(slot int32) *Entry {
	if l.table != nil {
		return l.table.rows[slot].entry
	}
	return l.value
}

func (l *Log) newestSlot() int32 {
	switch {
	case l.table != nil:
		return l.table.newest
	case l.value != nil:
		return 0
	}
	return none
}

func (l *Log) older(slot int32) int32 {
	if l.table != nil {
		return l.table.rows[slot].older
	}
	return none
}

func (l *Log) newer(slot int32) int32 {
	if l.table != nil {
		return l.table.rows[slot].newer
	}
	return none
}
