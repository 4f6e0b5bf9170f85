package channel

import "github.com/sluice-push/sluice/push"

// Entry is a publication as a log holds it. It is immutable.
type Entry struct {
	push.Publication

	// Ordinal is the log's own dense number of the entry, from 1. Counting what a slow stream reader missed needs it, because
	// offsets have gaps.
	Ordinal uint64
	// After is the offset of the entry appended before it, whatever its key, or the log's floor if that was higher: a cursor at or
	// beyond it, and below this entry, misses nothing in between.
	After uint64
	// Prev is the offset of what it replaced in this log: the live row of the same key, or in stream mode the entry before. 0
	// when that was nothing or a removal.
	Prev uint64
	// Retag is the offset at which the row's tags last changed: its own offset unless it replaced a live row with equal tags.
	Retag uint64
}

// Removed reports whether the entry is the removal of a row.
func (e *Entry) Removed() bool { return e.Op == push.Remove }

// Kind says what a delivery tells the subscriber.
type Kind uint8

// The kinds of deliveries.
const (
	// Put: the entry's publication. In table mode it replaces the row of its key.
	Put Kind = iota
	// Gone: the row of the entry's key is no longer there: it was removed, or no longer matches the filter.
	Gone
	// Clear: forget all rows; those that exist follow. There is no entry.
	Clear
	// Lost: entries were evicted before they could be delivered. There is no entry.
	Lost
	// Skip: nothing to send, only the cursor moves. Only Follow returns it.
	Skip
)

// Delivery is one thing to send to one subscriber.
type Delivery struct {
	// Entry is the log's entry; nil for Clear and Lost.
	Entry *Entry
	// Next is the cursor once this delivery was taken.
	Next Cursor
	// Offset is the subscriber's position once it has this delivery, to be sent along; 0 when the position stays as it was
	// (rows in the midst of a sweep).
	Offset uint64
	// Lost is how many entries were lost, −1 when that is not known. A log says it with the kind Lost; the hub puts it into the Put that
	// follows, for who tells the client. With a filter it counts what did not match, too.
	Lost int64
	// Kind says what to send.
	Kind Kind
	// Delta allows a Put to be sent as the difference to the entry at Entry.Prev.
	Delta bool
	// Change is what such a difference is made of, if Delta is set and the log has it: not when the keys differ, and not before
	// [Log.KeepChanges]. Follow leaves it to the caller, who asks [Log.Change] when the entry is appended.
	Change *Change
}

// Commit returns the cursor to store after the first taken of the deliveries of one Read were taken: c is the cursor that was
// read, end the one that Read returned.
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
