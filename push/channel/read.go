package channel

import (
	"math"

	"github.com/sluice-push/sluice/push"
)

// Budget bounds one read. Both fields must be positive for anything to be read. The last entry may exceed Bytes, so that an entry larger than
// the budget can be delivered.
type Budget struct {
	Entries int
	Bytes   int // as push.Publication.Size counts
}

// Everything is a budget that is larger than any log.
var Everything = Budget{Entries: math.MaxInt, Bytes: math.MaxInt}

func (b Budget) spent() bool { return b.Entries <= 0 || b.Bytes <= 0 }

func (b *Budget) take(e *Entry) {
	b.Entries--
	b.Bytes -= e.Size()
}

// Status is the reason for which a read ended.
type Status uint8

// The outcomes of a read.
const (
	UpToDate Status = iota // there is nothing more to read
	More                   // the budget was spent
	TooSlow                // evictions overtook the reader several times in a row; it cannot catch up at this rate
)

// Read appends to out the next deliveries for a subscription at cursor c with view v, within the budget. It returns the deliveries, the cursor
// after all of them, and the reason for which it ended. It changes neither the log nor c: see [Commit].
func (l *Log) Read(c Cursor, v *View, b Budget, out []Delivery) ([]Delivery, Cursor, Status) {
	if b.spent() || c.at > l.head {
		// A cursor above the head belongs to a client that is ahead of this log: there is nothing new until the log has caught up.
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

// ReadNext is Read for the common case: the cursor is right behind e, the entry just appended. It returns false if the cursor is elsewhere or
// needs more than that one entry; then the caller must use Read. The cursor to commit is the delivery's Next. ReadNext reads no state that
// changes. So, unlike all other methods, it may run while the log is appended to.
func (l *Log) ReadNext(c Cursor, v *View, e *Entry) (Delivery, bool) {
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

// deliver appends one delivery. The reader's cursor must already be the one after it.
func (r *reader) deliver(d Delivery) {
	d.Next = r.cursor
	r.out = append(r.out, d)
	if d.Entry != nil {
		r.budget.take(d.Entry)
	}
}

// change returns the change of an entry if it may be sent as a difference.
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

// lose moves a cursor that is below the floor up to the floor, and delivers the number of entries that it missed.
func (r *reader) lose() {
	l, c := r.log, r.cursor
	before := l.ordinal // the newest ordinal that was evicted
	if oldest := l.stream.oldest(); oldest != nil {
		before = oldest.Ordinal - 1
	}
	lost := int64(-1)
	if c.state != unknownOrdinal && c.mark >= l.stream.gap {
		lost = int64(before - c.mark) //nolint:gosec // a count of entries
	}
	if lost == 0 { // the cursor had read all evicted entries
		r.cursor.at = l.floor
		return
	}
	r.cursor = c.set(l.floor)
	r.cursor.mark = before
	r.deliver(Delivery{Kind: Lost, Lost: lost, Offset: l.floor})
}

func (r *reader) readTable() Status {
	l := r.log
	// Removals that were evicted after the state of the client's table can no longer be delivered.
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

// clear tells the client to forget its rows, and begins to fill its table from nothing.
func (r *reader) clear() {
	l := r.log
	r.cursor = r.cursor.fill(l.head)
	d := Delivery{Kind: Clear}
	if slot, _ := r.next(0); slot == l.slots() {
		d.Offset = l.head // no other delivery follows that could carry the offset
	}
	r.deliver(d)
}

// readRows delivers all rows from slot on, in the order of their offsets.
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

// sweep visits the slots from the cursor's slot on and delivers the rows that are newer than the cursor, until the budget is spent or the last
// slot is done. The last delivery of a sweep carries the offset of the sweep's mark. So sweep searches for the next row before it delivers one.
// The row that it finds still has to be sent later: only an eviction could remove it, and then the sweep starts again with a clear.
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

// next returns the first slot, from slot on, whose row the sweep must send, and the kind of the delivery. If there is none, it returns the
// number of slots.
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

// above returns the slot of the oldest row that is newer than the cursor, or none. It reports whether all rows from there on fit the budget. It
// visits no more rows than fit.
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

// The methods below treat the one row of a value channel like the rows of a table.

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
