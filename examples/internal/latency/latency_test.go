package latency_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/examples/internal/latency"
)

// counted returns what a histogram says that has counted durations.
func counted(all ...time.Duration) *latency.Reading {
	h := new(latency.Histogram)
	h.Add(time.Hour)
	before := h.Read()
	for _, d := range all {
		h.Add(d)
	}
	return h.Read().Since(before)
}

// A quantile is never less than the truth, and at most a thirty-second more.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 50).Draw(rt, "durations")
		part := rapid.Float64Range(0, 1).Draw(rt, "part")
		var all []time.Duration
		for _, n := range numbers {
			all = append(all, time.Duration(n>>rapid.IntRange(0, 62).Draw(rt, "shift")))
		}
		got := counted(all...).Quantile(part)
		slices.Sort(all)
		want := all[max(int(math.Ceil(part*float64(len(all))))-1, 0)]
		if got < want || float64(got-want) > float64(want)/32 {
			rt.Fatalf("quantile %v of %v is %v, want %v", part, all, int64(got), int64(want))
		}
	})
	if got := counted().Quantile(0.5); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
	if got := counted(-time.Second).Quantile(1); got != 0 {
		t.Errorf("of less than nothing it is %v", got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 270_340: "270µs", 1_234_567: "1.23ms", 9_999_999: "10ms", 61_234 * time.Millisecond: "1m1.2s",
	} {
		if got := latency.Short(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}
