package nats_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// past is the whole history of a channel, and the part of it that a store still has.
type past struct {
	all   []push.Publication
	kept  nats.Kept
	store []push.Publication
}

// pasts generates histories of a channel in a partition with other channels.
func pasts(mode push.Mode) *rapid.Generator[past] {
	return rapid.Custom(func(t *rapid.T) past {
		var p past
		offset := uint64(0)
		for range rapid.IntRange(0, 12).Draw(t, "publications") {
			offset += uint64(rapid.IntRange(1, 3).Draw(t, "others"))
			e := push.Publication{Offset: offset, Key: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "key")), Data: []byte("12345678")}
			e.Time = int64(rapid.IntRange(0, 20).Draw(t, "time"))
			e.Data = e.Data[:rapid.IntRange(0, 8).Draw(t, "bytes")]
			switch n := rapid.IntRange(0, 9).Draw(t, "op"); {
			case n == 0:
				e = push.Publication{Offset: offset, Op: push.Clear, Time: e.Time}
			case n < 4 && mode != push.Stream:
				e.Op, e.Data = push.Remove, nil
			}
			p.all = append(p.all, e)
		}
		p.kept = nats.Kept{Mode: mode, History: push.History{Size: rapid.IntRange(0, 6).Draw(t, "size")}}
		p.kept.TooOld = rapid.Uint64Range(0, offset).Draw(t, "too old")
		p.kept.Floor = rapid.Uint64Range(0, offset/2).Draw(t, "floor")
		if mode == push.Stream {
			p.kept.History.Bytes = int64(rapid.IntRange(0, 60).Draw(t, "bytes"))
			p.storeStream(t)
		} else {
			p.storeRows(t)
		}
		p.kept.Stored = len(p.store)
		return p
	})
}

// storeStream keeps the newest publications, as many as the history allows or more, and fewer of the ones from before the history grew.
func (p *past) storeStream(t *rapid.T) {
	p.store = append(p.store, p.all...)
	if n := p.kept.History.Size; n > 0 {
		was := len(p.all)
		if rapid.Bool().Draw(t, "grown") && was > 0 {
			was = rapid.IntRange(1, was).Draw(t, "grown at")
			p.kept.Grown = p.all[was-1].Offset
			left := min(was, rapid.IntRange(1, n).Draw(t, "size before"))
			p.store = append([]push.Publication(nil), p.all[was-left:]...)
		}
		n += rapid.IntRange(0, 2).Draw(t, "reserve")
		p.store = p.store[max(0, len(p.store)-n):]
	}
	// Publications that are too old, or were evicted while the store was read, may be gone.
	for len(p.store) > 0 && p.store[0].Offset <= max(p.kept.TooOld, p.kept.Floor) && rapid.Bool().Draw(t, "aged") {
		p.store = p.store[1:]
	}
	for len(p.store) > 0 && rapid.IntRange(0, 5).Draw(t, "evicted meanwhile") == 0 {
		p.kept.Gone = p.store[0].Offset
		p.store = p.store[1:]
	}
}

// storeRows keeps the newest publication of each row, and sometimes an older one that was read before it was replaced.
func (p *past) storeRows(t *rapid.T) {
	newest := make(map[string]uint64)
	for i := range p.all {
		newest[p.rowOf(&p.all[i])] = p.all[i].Offset
	}
	cleared, isExpired := newest["clear"], make(map[string]bool)
	for i := range p.all {
		e := &p.all[i]
		isOld := e.Op == push.Remove && e.Offset <= max(p.kept.TooOld, p.kept.Floor) || e.Offset < cleared
		if isOld && newest[p.rowOf(e)] == e.Offset {
			isExpired[p.rowOf(e)] = rapid.Bool().Draw(t, "expired")
		}
	}
	for i := range p.all {
		row := p.rowOf(&p.all[i])
		if !isExpired[row] && (newest[row] == p.all[i].Offset || rapid.IntRange(0, 4).Draw(t, "read before") == 0) {
			p.store = append(p.store, p.all[i])
		}
	}
}

// rowOf returns the row of a publication in the store.
func (p *past) rowOf(e *push.Publication) string {
	switch {
	case e.Op == push.Clear:
		return "clear"
	case p.kept.Mode == push.Value:
		return "value"
	}
	return "key " + e.Key
}

// sinceClear returns the publications after the last clear, and its offset.
func (p *past) sinceClear() (rest []push.Publication, cleared uint64) {
	rest = p.all
	for i := range p.all {
		if p.all[i].Op == push.Clear {
			rest, cleared = p.all[i+1:], p.all[i].Offset
		}
	}
	return rest, cleared
}

// TestKeepStream: all publications of a stream above the floor are shown, as many as the history allows and no more, and the floor is no higher
// than that explains.
func TestKeepStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pasts(push.Stream).Draw(t, "past")
		kept, floor := p.kept.Arrange(append([]push.Publication(nil), p.store...))
		rest, cleared := p.sinceClear()
		least := max(cleared, p.kept.TooOld, p.kept.Floor, p.kept.Gone)
		if floor < least {
			t.Fatalf("the floor is %d, and has to be %d", floor, least)
		}
		var want []push.Publication
		for _, e := range rest {
			if e.Offset > floor {
				want = append(want, e)
			}
		}
		sameOffsets(t, kept, want)
		h, bytes := p.kept.History, int64(0)
		for i := range kept {
			bytes += int64(kept[i].Size())
		}
		if h.Size > 0 && len(kept) > h.Size || h.Bytes > 0 && bytes > h.Bytes {
			t.Fatalf("%d publications of %d bytes are kept", len(kept), bytes)
		}
		// Should another one have been shown?
		if missing := len(rest) - len(kept); missing > 0 && rest[missing-1].Offset > max(least, p.kept.Grown) {
			next := rest[missing-1]
			bytes += int64(next.Size())
			if !(h.Size > 0 && len(kept) >= h.Size) && !(h.Bytes > 0 && bytes > h.Bytes) {
				t.Fatalf("offset %d could be shown", next.Offset)
			}
		}
	})
}

// TestKeepRows: all live rows of a table or value are shown in their newest form, and all removals above the floor.
func TestKeepRows(t *testing.T) {
	for _, mode := range []push.Mode{push.Table, push.Value} {
		t.Run(mode.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := pasts(mode).Draw(t, "past")
				kept, floor := p.kept.Arrange(append([]push.Publication(nil), p.store...))
				rest, cleared := p.sinceClear()
				if least := max(cleared, p.kept.TooOld, p.kept.Floor); floor < least {
					t.Fatalf("the floor is %d, and has to be %d", floor, least)
				}
				newest := make(map[string]uint64)
				for i := range rest {
					newest[p.rowOf(&rest[i])] = rest[i].Offset
				}
				var want []push.Publication
				removals := 0
				for _, e := range rest {
					if newest[p.rowOf(&e)] == e.Offset && (e.Op == push.Set || e.Offset > floor) {
						want = append(want, e)
						if e.Op == push.Remove {
							removals++
						}
					}
				}
				sameOffsets(t, kept, want)
				if n := p.kept.History.Size; n > 0 && removals > n {
					t.Fatalf("%d removals are remembered", removals)
				}
			})
		})
	}
}

func sameOffsets(t *rapid.T, got, want []push.Publication) {
	last := int64(0)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Offset != want[i].Offset {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if got[i].Time < last {
			t.Fatalf("time goes back at offset %d", got[i].Offset)
		}
		last = got[i].Time
	}
}
