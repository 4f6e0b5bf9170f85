package channel

// pageSlots is the number of slots that one call of Rows visits at most. In a table whose rows were nearly all removed, most slots are empty.
const pageSlots = 1 << 14

// Rows appends to out the live rows of a table, from a slot on, within the budget. It returns the slot for the next call, negative after the
// last row. A call may return fewer rows than the budget allows, or none, although there are more.
//
// A reader without a cursor uses Rows to get the whole table, call by call, while the table changes. It notes the log's head, calls Rows from
// slot 0 on, and finally applies the changes since that head, as a subscription from that head gets them. If the floor is not above that head,
// nothing is missing. A row that did not change stays in its slot, where Rows finds it. A row that was added, changed or removed is among the
// changes. Rows may return such a row too, in a version newer than the head.
//
// Slots are numbers in this log. Another log of the same channel has other slots.
func (l *Log) Rows(slot int, b Budget, out []Delivery) (_ []Delivery, next int) {
	end := int(l.slots())
	for looked := 0; slot < end; slot++ {
		if b.spent() || looked == pageSlots {
			return out, slot
		}
		looked++
		e := l.row(int32(slot)) //nolint:gosec // below the number of slots
		if e == nil || e.Removed() {
			continue
		}
		b.take(e)
		out = append(out, Delivery{Entry: e, Offset: e.Offset})
	}
	return out, -1
}
