package agehist_test

import (
	"slices"
	"testing"

	"github.com/sluice-push/sluice/push/internal/agehist"
)

// Deliveries of one time and kind are one count, the kinds are counted apart, and Take resets the histogram.
func TestCounts(t *testing.T) {
	var c agehist.Counts
	c.Add(5, 1, false)
	c.Add(7, 2, false)
	c.Add(5, 3, false)
	c.Add(5, 4, true)
	want := []agehist.Count{{5, 4, false}, {7, 2, false}, {5, 4, true}}
	if got := c.Take(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.Add(5, 1, false)
	if got := c.Take(); !slices.Equal(got, []agehist.Count{{5, 1, false}}) {
		t.Errorf("after it was taken: %v", got)
	}
	if got := c.Take(); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// With more times than are counted each, no delivery is lost, none becomes younger, and none changes its kind.
func TestMany(t *testing.T) {
	for _, order := range []func(i int64) int64{
		func(i int64) int64 { return i },
		func(i int64) int64 { return 1000 - i },
		func(i int64) int64 { return i * 7919 % 101 },
	} {
		var c agehist.Counts
		var n, got [2]int
		var oldest int64 = 1 << 40
		var sum, told int64
		for i := range int64(100) {
			at := order(i)
			c.Add(at, 1, i%10 == 9)
			n[i%10/9]++
			oldest, sum = min(oldest, at), sum+at
		}
		counts := c.Take()
		for _, one := range counts {
			kind := 0
			if one.FromLog {
				kind = 1
			}
			got[kind] += one.N
			told += one.Time * int64(one.N)
			if one.Time < oldest {
				t.Errorf("a count is of %d, older than all deliveries", one.Time)
			}
		}
		if n != got || told > sum || len(counts) > 17 {
			t.Errorf("%v counted as %v in %d, times %d told as %d", n, got, len(counts), sum, told)
		}
	}
}
