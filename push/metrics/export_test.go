package metrics

import (
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Histogram is a histogram for tests.
type Histogram struct{ h histogram }

// Observe counts n durations like the observers.
func (h *Histogram) Observe(d time.Duration, n int) { h.h.observe(d, n) }

// Read returns the histogram in the form for a scrape.
func (h *Histogram) Read(t testing.TB) *dto.Histogram {
	t.Helper()
	var out dto.Metric
	if err := (&metric{from: &h.h}).Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetHistogram()
}

// ClassicBounds are the upper bounds of the classic buckets.
func ClassicBounds() []float64 { return classicBounds[:] }
