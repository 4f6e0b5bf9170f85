package channel

// Tally is how much of a table or value channel one subscription has accounted for: which entries it was sent, and which it never
// will be, because newer ones of their keys took their places. It is a plain value beside the subscription's [Cursor]; the zero Tally
// knows nothing, until the subscription has come to the head once.
//
// What is not accounted for yet is either conflated or waits in one of the rows. So a subscription that is short of the head has
// missed at least as many entries as exceed the rows, and one that has come to the head all of them. A row that is sent in a sweep and
// again behind it counts as two entries sent: the tally is then too low by one, never too high.
//
// A tally is of one log, and of subscriptions that see all of it: what a filter leaves out would be taken for conflated.
type Tally uint32 // one more than the low bits of the ordinal up to which all is accounted for; 0: not known

// Progress is how far a log had come, and how many rows it had, tombstones included.
type Progress struct {
	Head, Ordinal uint64
	Rows          int
}

// Progress returns how far the log has come.
func (l *Log) Progress() Progress { return Progress{Head: l.head, Ordinal: l.ordinal, Rows: l.Len()} }

// TallyAt returns the tally of a subscription that has just been sent the entry with an ordinal, right behind its cursor (see [Log.Follow]).
func TallyAt(ordinal uint64) Tally { return Tally(ordinal + 1) } //nolint:gosec // the low bits are wanted

// Count accounts for sent entries that were taken in one read, which left the subscription at c; p is the log's progress when it was
// read. It returns the tally to keep, and how many entries turned out to be conflated.
func (t Tally) Count(sent int, c Cursor, p Progress) (next Tally, conflated int) {
	whole := Tally(p.Ordinal + 1)               //nolint:gosec // the low bits are wanted
	open := int(int32(whole - t - Tally(sent))) //nolint:gosec // a difference, which may be negative
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
	return t + Tally(sent) + Tally(conflated), conflated //nolint:gosec // both are small
}
