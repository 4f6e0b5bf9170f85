package delivery

import (
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold latencies in microseconds, with three significant digits, of up to one hour.
const (
	leastMicros = 1
	mostMicros  = 3_600_000_000
	digits      = 3
)

// NewHistogram returns an empty histogram of latencies.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(leastMicros, mostMicros, digits) }

// RecordLatency adds a latency to a histogram. A latency outside the bounds counts as the nearer bound.
func RecordLatency(h *hdrhistogram.Histogram, micros int64) {
	_ = h.RecordValue(min(max(micros, leastMicros), mostMicros)) // the only error is a value outside the bounds
}

// HistogramOf returns a histogram made from the exported counts of another one. It is empty if counts is nil.
func HistogramOf(counts []int64) *hdrhistogram.Histogram {
	if counts == nil {
		return NewHistogram()
	}
	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue: leastMicros, HighestTrackableValue: mostMicros, SignificantFigures: digits, Counts: counts,
	})
}

// HistogramBetween returns the histogram of the latencies that were recorded between two samples. It is given their counts.
func HistogramBetween(now, before []int64) *hdrhistogram.Histogram {
	counts := slices.Clone(now)
	for i, n := range before {
		counts[i] -= n
	}
	return HistogramOf(counts)
}

// SumCounts adds the counts of a histogram to those in to, and returns to. If to is nil, it returns a copy of counts, and nil if both are.
func SumCounts(to, counts []int64) []int64 {
	if to == nil {
		return slices.Clone(counts)
	}
	for i, n := range counts {
		to[i] += n
	}
	return to
}
