package channel

// pageSlots is how many slots one call of Rows looks at: of a table in which nearly everything was removed most hold no row.
const pageSlots = 1 << 14

// Rows appends to out the live rows of a table, from a slot on, within the budget, and returns where to go on; next is negative when
// that was all. There may be fewer rows than the budget has room for, even none, though there is more.
//
// It is how a reader that has no cursor gets the whole table, call by call, while the table changes: begin with slot 0, note the log's
// head before, and in the end apply what has changed since that head. That is what a subscription from there on reads, and as long as the
// floor is not above it nothing is missing. A row that stayed as it was has stayed in its slot, and was found there; one that came,
// changed or went is among the changes. It may have been found as well, in a version that is newer than the head.
//
// Slots are those of this log; those of another log of the same channel are others.
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
