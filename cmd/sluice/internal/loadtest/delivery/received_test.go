package delivery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// For deliveries in any order, a Set classifies each as a plain set of all deliveries would, and counts the missing ones at the end.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const base, perChannel = 2, 2
		l := NewSet(6)
		l.gapsLeft = rapid.SampledFrom([]int{maxGaps, maxGaps, 1000}).Draw(t, "gaps left")
		has := [perChannel]map[uint32]bool{{}, {}}
		announced := [perChannel]map[uint32]bool{{}, {}}
		var last [perChannel]uint32
		var pendingLoss [perChannel]bool
		for range rapid.IntRange(0, 60).Draw(t, "deliveries") {
			if rapid.IntRange(0, 9).Draw(t, "announce") == 0 {
				l.AnnounceLoss(base, perChannel)
				pendingLoss = [perChannel]bool{true, true}
			}
			index := rapid.IntRange(0, perChannel-1).Draw(t, "index")
			seq := uint32(rapid.IntRange(1, 30).Draw(t, "seq")) //nolint:gosec // small
			want := First
			switch {
			case has[index][seq]:
				want = Duplicated
			case seq < last[index]:
				want = Disordered
			default:
				for missed := last[index] + 1; missed < seq; missed++ {
					announced[index][missed] = pendingLoss[index]
				}
				last[index], pendingLoss[index] = seq, false
			}
			has[index][seq] = true
			if got := l.Receive(base, index, seq, 0); got != want {
				t.Fatalf("delivery %d of index %d: %v, want %v", seq, index, got, want)
			}
		}
		c := Published{From: 1, Last: uint32(rapid.IntRange(0, 35).Draw(t, "last"))} //nolint:gosec // small
		for n := uint32(1); n <= c.Last; n++ {
			if rapid.IntRange(0, 5).Draw(t, "hole") == 0 {
				c.Holes = append(c.Holes, n)
			}
		}
		ended := rapid.Bool().Draw(t, "ended")
		for index := range perChannel {
			var want Missed
			for n := uint32(1); n <= c.Last; n++ {
				if !has[index][n] && !slices.Contains(c.Holes, n) {
					want.Add(1, announced[index][n] || n > last[index] && (ended || pendingLoss[index]))
				}
			}
			if got := l.Missing(base+index, &c, ended, 0); got != want {
				t.Fatalf("missing of index %d: %+v, want %+v", index, got, want)
			}
		}
		if l.streams[0] != (streamState{}) || l.streams[1] != (streamState{}) || l.streams[4] != (streamState{}) {
			t.Fatal("a delivery was recorded in another stream")
		}
	})
}

// The server's offsets have to rise across all streams of a channel.
func TestSetOffsets(t *testing.T) {
	l := NewSet(2)
	for i, c := range []struct {
		index  int
		seq    uint32
		offset uint64
		want   Arrival
	}{
		{0, 1, 10, First},
		{1, 1, 11, First},
		{0, 2, 14, First},
		{1, 2, 13, Disordered}, // the next of its stream, but its offset is too low
		{1, 3, 15, First},
		{1, 3, 15, Duplicated},
		{0, 3, 0, First}, // without an offset
	} {
		if got := l.Receive(0, c.index, c.seq, c.offset); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
	l.AnnounceLoss(0, 2)
	if got := l.Receive(0, 0, 4, 1); got != First { // the log of the channel is a new one
		t.Errorf("after a fresh start: %v", got)
	}
}

// An announced loss covers the publications that were due until then. It does not cover one that was due later and never came.
func TestSetAnnouncementEnds(t *testing.T) {
	for name, c := range map[string]struct {
		published Published
		ended     bool
		came      uint32 // after the announcement; 0: none
		want      Missed
	}{
		"the last was due before":           {published: Published{From: 1, Last: 9, Sure: 9, Due: 100}, want: Missed{Announced: 5}},
		"the last was due after":            {published: Published{From: 1, Last: 9, Sure: 9, Due: 101}, want: Missed{Lost: 1, Announced: 4}},
		"nothing more was to come":          {published: Published{From: 1, Last: 9, Sure: 9, Due: 101}, ended: true, want: Missed{Announced: 5}},
		"the last came":                     {published: Published{From: 1, Last: 9, Sure: 9, Due: 101}, came: 9, want: Missed{Announced: 4}},
		"one after is surely published":     {published: Published{From: 1, Last: 9, Holes: []uint32{9}, Sure: 8, Due: 101}, want: Missed{Lost: 1, Announced: 3}},
		"nobody knows whether there is one": {published: Published{From: 1, Last: 6, Holes: []uint32{5, 6}, Sure: 4, Due: 101}},
	} {
		l := NewSet(1)
		for seq := range uint32(4) {
			l.Receive(0, 0, seq+1, 0)
		}
		l.AnnounceLoss(0, 1)
		if c.came > 0 {
			l.Receive(0, 0, c.came, 0)
		}
		if got := l.Missing(0, &c.published, c.ended, 100); got != c.want {
			t.Errorf("%s: missing %+v, want %+v", name, got, c.want)
		}
	}
}

// A Set without room for more gaps still counts missing publications.
func TestSetFull(t *testing.T) {
	l := NewSet(1)
	l.gapsLeft = 1
	for _, seq := range []uint32{3, 6, 10} { // 2, 2 and 3 are missing
		l.Receive(0, 0, seq, 0)
	}
	c := Published{From: 1, Last: 10}
	if n := l.Missing(0, &c, false, 0).Lost + l.lost.Lost; n != 7 {
		t.Errorf("%d are missing", n)
	}
	if got := l.Receive(0, 0, 4, 0); got != Duplicated {
		t.Errorf("a late delivery that the set has forgotten: %v", got)
	}
}

func BenchmarkSet(b *testing.B) {
	const entries = 1_000_000
	l := NewSet(entries)
	b.ReportAllocs()
	at, seq := 0, uint32(1)
	for b.Loop() {
		l.Receive(at, 0, seq, uint64(seq))
		if at++; at == entries {
			at, seq = 0, seq+1
		}
	}
}
