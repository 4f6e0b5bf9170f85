// Package latency counts how long things took, and says which time a part of them did not exceed.
package latency

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// steps is into how many parts each power of two is divided: what is read is wrong by 3 % at most.
const steps = 32

// buckets is how many there are for 64 bits.
const buckets = steps * (64 - 5 + 1)

// Histogram counts durations. It may be used by any number of goroutines.
type Histogram struct{ counts [buckets]atomic.Uint64 }

// Add counts a duration. Negative ones are none.
func (h *Histogram) Add(d time.Duration) { h.counts[bucketOf(uint64(max(d, 0)))].Add(1) }

// bucketOf returns where a value is counted: small ones exactly, others by their highest bit and the five below it.
func bucketOf(v uint64) int {
	if v < steps {
		return int(v)
	}
	shift := bits.Len64(v) - 6
	return (shift+1)*steps + int(v>>shift)%steps
}

// highest returns the largest value that is counted in a bucket.
func highest(bucket int) uint64 {
	if bucket < steps {
		return uint64(bucket)
	}
	shift := bucket/steps - 1
	return uint64(steps+bucket%steps)<<shift + 1<<shift - 1
}

// Reading is what a histogram has counted, or what it has counted since another reading.
type Reading struct {
	counts [buckets]uint64
	Total  uint64 // how many durations
}

// Read reads the histogram. Durations that are added meanwhile may be in it or not.
func (h *Histogram) Read() *Reading {
	r := new(Reading)
	for i := range h.counts {
		r.counts[i] = h.counts[i].Load()
		r.Total += r.counts[i]
	}
	return r
}

// Since returns what r has and an earlier reading has not.
func (r *Reading) Since(earlier *Reading) *Reading {
	d := &Reading{Total: r.Total - earlier.Total}
	for i := range d.counts {
		d.counts[i] = r.counts[i] - earlier.counts[i]
	}
	return d
}

// Quantile returns the duration that the given part of all does not exceed, 0 if nothing was counted.
func (r *Reading) Quantile(part float64) time.Duration {
	rank := max(uint64(math.Ceil(part*float64(r.Total))), 1)
	for i, n := range r.counts {
		if n >= rank {
			return time.Duration(highest(i))
		}
		rank -= n
	}
	return 0
}

// Short returns a duration with three digits.
func Short(d time.Duration) string {
	step := time.Nanosecond
	for d >= 1000*step {
		step *= 10
	}
	return d.Round(step).String()
}
