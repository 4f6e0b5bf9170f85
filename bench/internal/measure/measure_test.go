package measure_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/measure"
)

func TestQuantiles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		max    int64
		counts [][2]int64
		want   [4]int64
	}{
		{name: "none"},
		{name: "one", max: 700, counts: [][2]int64{{703, 1}}, want: [4]int64{700, 700, 700, 700}},
		{name: "two", max: 9, counts: [][2]int64{{1, 1}, {9, 1}}, want: [4]int64{1, 9, 9, 9}},
		{name: "tail", max: 95, counts: [][2]int64{{10, 980}, {50, 10}, {80, 9}, {96, 1}}, want: [4]int64{10, 50, 80, 95}},
	} {
		h := measure.Histogram{Max: tt.max, Counts: tt.counts}
		l := h.Latency()
		if got := [4]int64{l.P50, l.P99, l.P999, l.Max}; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   measure.Spread
	}{
		{nil, measure.Spread{}},
		{[]float64{3}, measure.Spread{Median: 3, Min: 3, Max: 3}},
		{[]float64{4, 1, 2}, measure.Spread{Median: 2, Min: 1, Max: 4}},
		{[]float64{4, 1, 2, 8}, measure.Spread{Median: 3, Min: 1, Max: 8}},
	} {
		if got := measure.NewSpread(tt.values); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.128: "0.13", 9.99: "9.99", 12.34: "12.3", 1234.5: "1234"} {
		if got := measure.Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
