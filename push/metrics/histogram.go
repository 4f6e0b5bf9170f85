package metrics

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Durations are kept in a native histogram of schema 3, whose buckets are 9 % wide, from a microsecond to twelve days. Classic buckets beside it
// serve scrapes in the text format. The histograms of the client library take observations one by one; here an observation costs the same
// however many deliveries it stands for.
const (
	schema       = 3
	perPower     = 1 << schema // buckets for each power of two
	leastPower   = -20         // 2⁻²⁰ s, 1 µs: a shorter duration counts as zero
	mostPower    = 20          // 2²⁰ s, 12 days: a longer duration counts as that
	nativeBucket = (mostPower - leastPower) * perPower
)

// classicBounds are the upper bounds of the classic buckets, in seconds.
var classicBounds = [...]float64{
	0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
}

// powerBounds are the upper bounds of the native buckets between 1/2 and 1.
var powerBounds = func() (bounds [perPower]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i+1)/perPower - 1)
	}
	return bounds
}()

// histogram counts durations. All methods may be called concurrently, and do not lock. Only the encoding for a scrape allocates.
type histogram struct {
	zero    atomic.Uint64
	native  [nativeBucket]atomic.Uint64
	classic [len(classicBounds) + 1]atomic.Uint64
	sum     atomic.Uint64 // the bits of a float64, in seconds
}

// observe counts n times the same duration. A negative one, which differing clocks may cause, counts as zero.
func (h *histogram) observe(d time.Duration, n int) {
	if n <= 0 {
		return
	}
	count, seconds := uint64(n), max(d.Seconds(), 0)
	if i, ok := bucketOf(seconds); ok {
		h.native[i].Add(count)
	} else {
		h.zero.Add(count)
	}
	i := 0
	for i < len(classicBounds) && seconds > classicBounds[i] {
		i++
	}
	h.classic[i].Add(count)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+seconds*float64(n))) {
			return
		}
	}
}

// bucketOf returns the native bucket of a duration, and false if the duration counts as zero. Bucket i ends at 2^(leastPower + (i+1)/perPower).
func bucketOf(seconds float64) (i int, ok bool) {
	fraction, power := math.Frexp(seconds) // fraction is in [1/2, 1)
	power -= leastPower + 1
	switch {
	case seconds <= math.Ldexp(1, leastPower):
		return 0, false
	case fraction == 0.5: // a power of two is the upper bound of the bucket below it
		return min(power*perPower, nativeBucket) - 1, true
	}
	i = 0
	for fraction > powerBounds[i] {
		i++
	}
	return min(power*perPower+i, nativeBucket-1), true
}

// metric is a histogram in the form of the client library.
type metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	from   *histogram
}

// Desc implements prometheus.Metric.
func (m *metric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric. An observation made meanwhile may be in the native buckets and not yet in the classic ones. Each of the
// two sets is consistent in itself.
func (m *metric) Write(out *dto.Metric) error {
	h := m.from
	native := nativeOf(h)
	native.SampleSum = new(math.Float64frombits(h.sum.Load()))
	total := uint64(0)
	for i, bound := range classicBounds {
		total += h.classic[i].Load()
		native.Bucket = append(native.Bucket, &dto.Bucket{CumulativeCount: new(min(total, native.GetSampleCount())), UpperBound: new(bound)})
	}
	out.Label, out.Histogram = m.labels, native
	return nil
}

// nativeOf encodes the native buckets: spans of neighbouring buckets, and for each bucket the difference to the one before.
func nativeOf(h *histogram) *dto.Histogram {
	zero := h.zero.Load()
	out := &dto.Histogram{Schema: new(int32(schema)), ZeroThreshold: new(math.Ldexp(1, leastPower)), ZeroCount: &zero}
	total, before := zero, int64(0)
	end := int32(0) // index after the last bucket that was written
	for i := range h.native {
		n := h.native[i].Load()
		if n == 0 {
			continue
		}
		total += n
		// Prometheus numbers the buckets so that number 0 ends at 1.
		index := int32(i + 1 + leastPower*perPower) //nolint:gosec // few
		switch gap := index - end; {
		case len(out.PositiveSpan) == 0 || gap > 2:
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: new(gap), Length: new(uint32(0))})
		default: // a few empty buckets are shorter than another span
			for range gap {
				out.PositiveDelta = append(out.PositiveDelta, -before)
				before = 0
				*out.PositiveSpan[len(out.PositiveSpan)-1].Length++
			}
		}
		out.PositiveDelta = append(out.PositiveDelta, int64(n)-before) //nolint:gosec // far below
		before = int64(n)                                              //nolint:gosec // far below
		*out.PositiveSpan[len(out.PositiveSpan)-1].Length++
		end = index + 1
	}
	out.SampleCount = &total
	return out
}

// labelPairs returns labels in the form of the client library, ordered by name.
func labelPairs(names, values []string) []*dto.LabelPair {
	var out []*dto.LabelPair
	for i, name := range names {
		out = append(out, &dto.LabelPair{Name: new(name), Value: new(values[i])})
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return out
}
