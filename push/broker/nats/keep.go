package nats

import (
	"slices"

	"github.com/sluice-push/sluice/push"
)

// keep says what of a channel's stored entries is shown, and from where on that is complete. It is what the history allows, which may be
// less than the server still has.
type keep struct {
	mode    push.Mode
	history push.History
	tooOld  uint64 // everything up to here is older than the history allows
	grown   uint64 // up to here the history may have been shorter in size
	floor   uint64 // up to here something may be missing for other reasons
}

// arrange sorts out what was found of a channel.
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

// settleTimes sees to it that time does not go back, though the clock of the server may have.
func settleTimes(entries []push.Publication) {
	for i := 1; i < len(entries); i++ {
		entries[i].Time = max(entries[i].Time, entries[i-1].Time)
	}
}

// stream keeps the newest publications within size, bytes and age. stored is how many the server has, those from before a clear among
// them: when it has as many as it may, older ones may be gone.
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

// rows keeps all live rows and the newest removals within size and age.
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
