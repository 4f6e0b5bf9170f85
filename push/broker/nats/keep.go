package nats

import (
	"slices"

	"github.com/sluice-push/sluice/push"
)

// keep selects the stored entries of a channel that are shown, and computes the floor above which they are complete. The history allows them;
// the server may still store more.
type keep struct {
	mode    push.Mode
	history push.History
	tooOld  uint64 // everything up to this offset is older than the history allows
	grown   uint64 // up to this offset a smaller History.Size may have applied
	floor   uint64 // up to this offset entries may be missing for other reasons
}

// arrange selects the entries to show from all entries found, and returns the floor.
func (k *keep) arrange(f found) (kept []push.Publication, floor uint64) {
	floor = max(k.floor, k.tooOld, f.gone)
	entries := f.entries
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Op == push.Clear {
			floor = max(floor, entries[i].Offset)
			entries = entries[i+1:]
			break
		}
	}
	settleTimes(entries)
	if k.mode == push.Stream {
		return k.stream(entries, f.stored, floor)
	}
	return k.rows(entries, floor)
}

// settleTimes makes times not go back, although the clock of the server may have.
func settleTimes(entries []push.Publication) {
	for i := 1; i < len(entries); i++ {
		entries[i].Time = max(entries[i].Time, entries[i-1].Time)
	}
}

// stream selects the newest publications within size, bytes and age. stored is how many messages the server has, those from before a clear
// included: if it has as many as it may, older ones may have been evicted.
func (k *keep) stream(entries []push.Publication, stored int, floor uint64) ([]push.Publication, uint64) {
	if n := k.history.Size; n > 0 && len(entries) > n {
		entries = entries[len(entries)-n:]
	}
	if len(entries) > 0 && (k.history.Size > 0 && stored >= k.history.Size || entries[0].Offset <= k.grown) {
		floor = max(floor, entries[0].Offset-1)
	}
	first, bytes := len(entries), int64(0)
	for first > 0 && entries[first-1].Offset > floor {
		bytes += int64(entries[first-1].Size())
		if k.history.Bytes > 0 && bytes > k.history.Bytes {
			floor = max(floor, entries[first-1].Offset)
			break
		}
		first--
	}
	return entries[first:], floor
}

// rows selects all live rows, and the newest removals within size and age.
func (k *keep) rows(entries []push.Publication, floor uint64) ([]push.Publication, uint64) {
	newest := make(map[string]uint64, len(entries))
	for i := range entries {
		newest[k.rowOf(&entries[i])] = entries[i].Offset
	}
	removals := 0
	kept := make([]push.Publication, 0, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		if newest[k.rowOf(e)] != e.Offset {
			continue
		}
		if e.Op == push.Remove {
			removals++
			if k.history.Size > 0 && removals > k.history.Size {
				floor = max(floor, e.Offset)
			}
			if e.Offset <= floor {
				continue
			}
		}
		kept = append(kept, *e)
	}
	slices.Reverse(kept)
	return kept, floor
}

func (k *keep) rowOf(p *push.Publication) string {
	if k.mode == push.Value {
		return ""
	}
	return p.Key
}
