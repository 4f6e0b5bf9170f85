package channel

import "github.com/sluice-push/sluice/push"

// Entry is a publication in a log. It is immutable.
type Entry struct {
	push.Publication

	// Ordinal is the entry's number in this log, counted from 1 without gaps. Offsets have gaps, so the number of entries that a slow stream
	// reader missed comes from ordinals.
	Ordinal uint64
	// After is the offset of the entry appended before this one, with any key, or the log's floor if that was higher. A cursor from After on,
	// and below this entry, misses nothing in between.
	After uint64
	// Prev is the offset of the entry that this one replaced in the log: the live row of the same key, or in stream mode the previous entry. It
	// is 0 if there was none or it was a removal.
	Prev uint64
	// Retag is the offset at which the row's tags last changed. It is the entry's own offset unless the entry replaced a live row with equal
	// tags.
	Retag uint64
}

// Removed reports whether the entry removes a row.
func (e *Entry) Removed() bool { return e.Op == push.Remove }

// Kind is the meaning of a delivery.
type Kind uint8

// The kinds of deliveries.
const (
	// Put carries the entry's publication. In table mode it replaces the row of its key.
	Put Kind = iota
	// Gone says that the row of the entry's key was removed, or no longer matches the filter.
	Gone
	// Clear tells the client to forget all rows; the existing rows follow. It has no entry.
	Clear
	// Lost says that entries were evicted before they could be delivered. It has no entry.
	Lost
	// Skip sends nothing and only moves the cursor. Only ReadNext returns it.
	Skip
)

// Delivery is one item to send to one subscriber.
type Delivery struct {
	// Entry is the log's entry; nil for Clear and Lost.
	Entry *Entry
	// Next is the cursor after this delivery.
	Next Cursor
	// Offset is the subscriber's position after this delivery, which is sent along. It is 0 if the position does not change, as for rows within
	// a sweep.
	Offset uint64
	// Lost is the number of lost entries, −1 if it is unknown. A log sets it in a delivery of kind Lost. The hub copies it to the Put that
	// follows, for encoders that report it to the client. With a filter it also counts entries that did not match.
	Lost int64
	// Kind is the meaning of the delivery.
	Kind Kind
	// Delta allows a Put to be sent as the difference to the entry at Entry.Prev.
	Delta bool
	// Change computes such a difference. It is nil if Delta is false, if the keys differ, or if the log does not keep the change (see
	// [Log.KeepChanges]). ReadNext leaves it nil; its caller calls [Log.Change] when the entry is appended.
	Change *Change
}

// Commit returns the cursor to store after the first taken deliveries of one Read were sent. The argument c is the cursor that was read, and end
// the cursor that Read returned.
func Commit(c Cursor, deliveries []Delivery, end Cursor, taken int) Cursor {
	switch {
	case taken >= len(deliveries):
		return end
	case taken <= 0:
		return c
	default:
		return deliveries[taken-1].Next
	}
}
