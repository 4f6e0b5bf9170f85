package channel

// ConflationCounter counts how much of a table or value channel one subscription has accounted for: the entries that it was sent, and the ones
// that it will never get, because newer entries of their keys replaced them. It is a plain value beside the subscription's [Cursor]. The zero
// ConflationCounter is unknown until the subscription has reached the head once.
//
// An entry that is not accounted for is either conflated or still in one of the rows. So for a subscription short of the head, the number of
// conflated entries is at least the number of open entries minus the number of rows. At the head, all open entries are conflated. A row that is
// sent in a sweep and again after it counts as two sent entries. Then the counter is too low by one; it is never too high.
//
// A counter belongs to one log. It requires a subscription without a filter, because entries that a filter leaves out would count as conflated.
type ConflationCounter uint32 // the low bits of the ordinal up to which all is accounted for, plus one; 0: unknown

// Progress is the state of a log for [ConflationCounter.Count]: its head, the ordinal of its newest entry, and its number of rows, including
// tombstones.
type Progress struct {
	Head, Ordinal uint64
	Rows          int
}

// Progress returns the log's current progress.
func (l *Log) Progress() Progress { return Progress{Head: l.head, Ordinal: l.ordinal, Rows: l.Len()} }

// ConflationCounterAt returns the counter of a subscription that was just sent the entry with the given ordinal, right behind its cursor (see
// [Log.ReadNext]).
func ConflationCounterAt(ordinal uint64) ConflationCounter { return ConflationCounter(ordinal + 1) } //nolint:gosec // the low bits are wanted

// Count accounts for the sent entries of one read, which left the subscription at c. The argument p is the log's progress at that read. It
// returns the counter to keep and the number of entries that turned out to be conflated.
func (t ConflationCounter) Count(sent int, c Cursor, p Progress) (next ConflationCounter, conflated int) {
	whole := ConflationCounter(p.Ordinal + 1)               //nolint:gosec // the low bits are wanted
	open := int(int32(whole - t - ConflationCounter(sent))) //nolint:gosec // a difference, which may be negative
	if !c.Sweeping() && c.at >= p.Head {
		if t == 0 {
			return whole, 0
		}
		return whole, max(open, 0)
	}
	if t == 0 {
		return 0, 0
	}
	conflated = max(open-p.Rows, 0)
	return t + ConflationCounter(sent) + ConflationCounter(conflated), conflated //nolint:gosec // both are small
}
