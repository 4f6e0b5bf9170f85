package measure

import (
	"cmp"
	"slices"
)

// Histogram is what a client knows of the latencies of a run. Counts are pairs of the largest latency of a bucket, in
// nanoseconds, and how many were in it, in order.
type Histogram struct {
	Max    int64      `json:"max"`
	Counts [][2]int64 `json:"counts"`
}

// Total is how many latencies there are.
func (h *Histogram) Total() int64 {
	var n int64
	for _, c := range h.Counts {
		n += c[1]
	}
	return n
}

// quantile returns the smallest latency that at least the fraction q does not exceed, 0 when there are none.
func (h *Histogram) quantile(q float64) int64 {
	total, sum := h.Total(), int64(0)
	for _, c := range h.Counts {
		sum += c[1]
		if float64(sum) >= q*float64(total) {
			return min(c[0], h.Max)
		}
	}
	return h.Max
}

// Latency is a distribution, in nanoseconds.
type Latency struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// Latency sums a histogram up.
func (h *Histogram) Latency() Latency {
	return Latency{P50: h.quantile(0.5), P99: h.quantile(0.99), P999: h.quantile(0.999), Max: h.Max}
}

// Quantiles are spreads over rounds, in milliseconds.
type Quantiles struct {
	P50  Spread `json:"p50"`
	P99  Spread `json:"p99"`
	P999 Spread `json:"p999"`
	Max  Spread `json:"max"`
}

// NewQuantiles collects a distribution of each sample.
func NewQuantiles[T any](samples []T, of func(*T) *Latency) Quantiles {
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return Quantiles{
		P50:  Over(samples, func(s *T) float64 { return ms(of(s).P50) }),
		P99:  Over(samples, func(s *T) float64 { return ms(of(s).P99) }),
		P999: Over(samples, func(s *T) float64 { return ms(of(s).P999) }),
		Max:  Over(samples, func(s *T) float64 { return ms(of(s).Max) }),
	}
}

// Cells are the four of them as they are printed.
func (q *Quantiles) Cells() []string {
	return []string{q.P50.String(), q.P99.String(), q.P999.String(), q.Max.String()}
}

// Add adds the latencies of another histogram.
func (h *Histogram) Add(other *Histogram) {
	h.Max = max(h.Max, other.Max)
	h.Counts = append(h.Counts, other.Counts...)
	slices.SortFunc(h.Counts, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
}
