package channel

import (
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/sluice-push/sluice/push"
)

// Term is one condition on a publication's tags: the tag must have one of the values.
type Term struct {
	Tag    string
	Values []string
}

// View is the part of a channel that a subscription sees: its rows, and their fields. A position belongs to one view of one channel, because
// another view at the same position holds other rows. A nil *View sees everything. A View must not change while subscriptions use it.
type View struct {
	// Filter holds the conditions, all of which must be met. Empty: everything matches.
	Filter []Term
	// Fields names the top-level fields of the data to send, in any order. Empty: all. The log does not read the data; the encoder selects the
	// fields. Fields is part of View because a position depends on it.
	Fields []string
}

// Matches reports whether tags meet the filter.
func (v *View) Matches(tags map[string]string) bool {
	if v == nil {
		return true
	}
	for _, t := range v.Filter {
		if value, ok := tags[t.Tag]; !ok || !slices.Contains(t.Values, value) {
			return false
		}
	}
	return true
}

// Epoch returns the epoch that subscribers with this view get: the channel's own, with a hash of the view unless the view shows everything. The
// order of terms, values and fields does not matter.
func (v *View) Epoch(epoch string) string {
	if v == nil || len(v.Filter) == 0 && len(v.Fields) == 0 {
		return epoch
	}
	terms := make([]string, 0, len(v.Filter))
	for _, t := range v.Filter {
		term := strconv.Quote(t.Tag)
		for _, value := range slices.Compact(slices.Sorted(slices.Values(t.Values))) {
			term += strconv.Quote(value)
		}
		terms = append(terms, term)
	}
	slices.Sort(terms)
	h := fnv.New64a()
	for _, term := range terms {
		_, _ = h.Write([]byte(term + "&"))
	}
	for _, field := range slices.Compact(slices.Sorted(slices.Values(v.Fields))) {
		_, _ = h.Write([]byte("," + strconv.Quote(field)))
	}
	return epoch + "~" + hex.EncodeToString(h.Sum(nil))
}

// choose decides whether to send an entry to a cursor of a table, and as which kind.
//
// A row that does not match the filter is gone for the client, unless the client certainly does not hold it: the tags have not changed since the
// client was last known to be at the head. Without that certainty the client gets a Gone; otherwise it could keep a stale row.
func (v *View) choose(c Cursor, e *Entry) (Kind, bool) {
	switch {
	case e.Offset <= c.at:
		return Skip, false
	case e.Removed():
		return Gone, c.state != filling || e.Offset > c.mark
	case v.Matches(e.Tags):
		return Put, true
	default:
		return Gone, c.held() < e.Retag
	}
}

// allowsDelta is the delta rule: see the package comment. With a filter, the client may not hold the replaced entry, so it gets no deltas.
func (v *View) allowsDelta(c Cursor, e *Entry, mode push.Mode) bool {
	known := c.level
	if mode == push.Stream {
		known = c.at
	}
	return e.Prev != 0 && c.start <= e.Prev && e.Prev <= known && (v == nil || len(v.Filter) == 0)
}
