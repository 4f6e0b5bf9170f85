// Package measure has the numbers of measurements: distributions of latencies, and medians over rounds.
package measure

import (
	"fmt"
	"slices"
)

// Spread is a median, and from where to where the values reach.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// NewSpread returns the spread of values, which may be none.
func NewSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	median := v[len(v)/2]
	if len(v)%2 == 0 {
		median = (v[len(v)/2-1] + median) / 2
	}
	return Spread{Median: median, Min: v[0], Max: v[len(v)-1]}
}

// Over collects a figure of each sample.
func Over[T any](samples []T, figure func(*T) float64) Spread {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = figure(&samples[i])
	}
	return NewSpread(values)
}

// Against divides s by b: the medians, and at best and worst the ends of the ranges.
func (s Spread) Against(b Spread) Spread {
	if b.Min <= 0 {
		return Spread{}
	}
	return Spread{Median: s.Median / b.Median, Min: s.Min / b.Max, Max: s.Max / b.Min}
}

// Times multiplies everything.
func (s Spread) Times(by float64) Spread {
	return Spread{Median: s.Median * by, Min: s.Min * by, Max: s.Max * by}
}

// String prints the median and, if they differ, from where to where.
func (s Spread) String() string {
	if Number(s.Min) == Number(s.Max) {
		return Number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median), Number(s.Min), Number(s.Max))
}

// Number prints three digits that count, and no exponent.
func Number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Megabytes prints bytes.
func Megabytes(bytes int64) string { return Number(float64(bytes) / 1e6) }

// Milliseconds prints nanoseconds.
func Milliseconds(ns int64) string { return Number(float64(ns) / 1e6) }
