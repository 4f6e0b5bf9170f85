package metrics_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/metrics"
)

// buckets returns the counts of a native histogram by the number of the bucket.
func buckets(t *testing.T, h *dto.Histogram) map[int]int64 {
	t.Helper()
	out := map[int]int64{}
	deltas := h.GetPositiveDelta()
	at, n := 0, int64(0)
	for _, span := range h.GetPositiveSpan() {
		at += int(span.GetOffset())
		for range span.GetLength() {
			n += deltas[0]
			deltas = deltas[1:]
			if n != 0 {
				out[at] = n
			}
			at++
		}
	}
	if len(deltas) > 0 {
		t.Errorf("%d deltas too many", len(deltas))
	}
	return out
}

// TestHistogram: the result is that of the client library's own histogram with the same resolution.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for round := range 50 {
		var ours metrics.Histogram
		theirs := prometheus.NewHistogram(prometheus.HistogramOpts{
			Buckets: metrics.ClassicBounds(), NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Ldexp(1, -20),
		})
		for range random.IntN(200) {
			d := time.Duration(math.Exp2(random.Float64() * 45)) // to ten hours
			switch random.IntN(10) {
			case 0:
				d = 0
			case 1:
				d = time.Second >> random.IntN(20) // bounds
			case 2:
				d = time.Second << random.IntN(12)
			}
			n := 1 + random.IntN(5)
			ours.Observe(d, n)
			for range n {
				theirs.Observe(d.Seconds())
			}
		}
		var want dto.Metric
		if err := theirs.Write(&want); err != nil {
			t.Fatal(err)
		}
		compare(t, round, ours.Read(t), want.GetHistogram())
	}
}

func compare(t *testing.T, round int, got, want *dto.Histogram) {
	t.Helper()
	if got.GetSchema() != want.GetSchema() || got.GetSampleCount() != want.GetSampleCount() || got.GetZeroCount() != want.GetZeroCount() ||
		math.Abs(got.GetSampleSum()-want.GetSampleSum()) > 1e-9*want.GetSampleSum() {
		t.Fatalf("round %d: %v\nwant %v", round, got, want)
	}
	a, b := buckets(t, got), buckets(t, want)
	for i, n := range b {
		if a[i] != n {
			t.Errorf("round %d: bucket %d has %d, want %d", round, i, a[i], n)
		}
	}
	if len(a) != len(b) {
		t.Errorf("round %d: %d buckets, want %d", round, len(a), len(b))
	}
	for i, bucket := range want.GetBucket() {
		if g := got.GetBucket()[i]; g.GetUpperBound() != bucket.GetUpperBound() || g.GetCumulativeCount() != bucket.GetCumulativeCount() {
			t.Errorf("round %d: classic %v, want %v", round, g, bucket)
		}
	}
}

// Durations out of range are counted in the first or last bucket, and negative ones as zero.
func TestHistogramRange(t *testing.T) {
	var h metrics.Histogram
	h.Observe(-time.Hour, 2)
	h.Observe(math.MaxInt64, 3)
	h.Observe(time.Second, 0)
	h.Observe(time.Second, -1)
	got := h.Read(t)
	if got.GetZeroCount() != 2 || got.GetSampleCount() != 5 || buckets(t, got)[20*8] != 3 {
		t.Errorf("%v", got)
	}
}

// No observation is lost if many goroutines observe concurrently, and each scrape is consistent.
func TestHistogramConcurrent(t *testing.T) {
	var h metrics.Histogram
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 2000 {
				h.Observe(time.Duration(i*j)*time.Microsecond, 2)
			}
		})
	}
	for range 100 {
		got := h.Read(t)
		sum := int64(got.GetZeroCount())
		for _, n := range buckets(t, got) {
			sum += n
		}
		last := uint64(0)
		for _, b := range got.GetBucket() {
			if b.GetCumulativeCount() < last {
				t.Fatalf("classic buckets fall: %v", got.GetBucket())
			}
			last = b.GetCumulativeCount()
		}
		if uint64(sum) != got.GetSampleCount() || last > got.GetSampleCount() {
			t.Fatalf("%d in buckets, %d in all, %d in classic ones", sum, got.GetSampleCount(), last)
		}
	}
	testwait.Return(t, wg.Wait)
	if got := h.Read(t).GetSampleCount(); got != 16_000 {
		t.Errorf("%d observed", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h metrics.Histogram
	b.ReportAllocs()
	d := time.Duration(0)
	for b.Loop() {
		d = (d + 12_345) % time.Second
		h.Observe(d, 100)
	}
}
