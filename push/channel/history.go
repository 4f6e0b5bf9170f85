package channel

import "github.com/sluice-push/sluice/push"

// HistoryRequest selects a part of a channel's history.
type HistoryRequest struct {
	// Limit is the number of entries at most; 0: only the position, negative: all entries.
	Limit int
	// Since excludes the entries at or before it, or with Reverse those at or after it; nil for no bound.
	Since *push.Position
	// Reverse asks for the newest entries first.
	Reverse bool
}

// History returns the entries that a request selects: of a table its live rows, of a stream what is above the offset oldest. It reports false if the
// position is of another epoch, or entries after it are no longer kept.
func (l *Log) History(r HistoryRequest, oldest uint64) (entries []*Entry, ok bool) {
	if r.Since != nil && *r.Since == (push.Position{}) && !r.Reverse {
		r.Since = nil // all entries
	}
	isStream := l.stream != nil
	switch {
	case r.Since == nil && r.Reverse:
		entries = l.Before(push.MaxOffset+1, r.Limit)
	case r.Since == nil && isStream:
		entries = l.Since(oldest, r.Limit)
	case r.Since == nil:
		entries = l.Since(0, r.Limit) // rows may be older than the removals that are remembered
	case r.Since.Epoch != "" && r.Since.Epoch != l.Epoch(), r.Since.Offset < oldest && !r.Reverse,
		r.Reverse && isStream && oldest > 0 && r.Since.Offset <= oldest:
		return nil, false
	case r.Reverse:
		entries = l.Before(r.Since.Offset, r.Limit)
	default:
		entries = l.Since(r.Since.Offset, r.Limit)
	}
	for isStream && len(entries) > 0 && r.Reverse && entries[len(entries)-1].Offset <= oldest {
		entries = entries[:len(entries)-1]
	}
	return entries, true
}
