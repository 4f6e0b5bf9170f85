//go:build unix

package hub_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// BenchmarkRateIdle measures what 100,000 subscriptions with an interval of a second, 100 a client, cost while nothing is published, after
// each of them was served once: CPU of the process, as a share of one processor; and what one of them holds.
func BenchmarkRateIdle(b *testing.B) {
	const clients, each = 1000, 100
	before := heapInUse()
	h := benchHub(b)
	count := &atomic.Int64{}
	for i := range clients {
		s, err := h.Connect(&sink{count: count, all: -1}, text{}, client(fmt.Sprint(i)))
		must(b, err)
		b.Cleanup(s.Close)
		for j := range each {
			r := hub.SubscribeRequest{Channel: fmt.Sprintf("value:%d", j), Interval: time.Second}
			must(b, s.Subscribe(b.Context(), r, quietly))
		}
	}
	for j := range each {
		publish(b, h, fmt.Sprintf("value:%d", j), push.Publication{Data: []byte("1")})
	}
	testwait.True(b, "all are served", func() bool { return count.Load() == clients*each })
	held := float64(heapInUse() - before)
	for b.Loop() {
		began, cpu := time.Now(), cpuTime(b)
		<-time.After(time.Second) // what is measured is that nothing happens
		b.ReportMetric(100*float64(cpuTime(b)-cpu)/float64(time.Since(began)), "%-of-a-core")
	}
	b.ReportMetric(held/(clients*each), "B/subscription")
}

// BenchmarkRateBusy measures what a publication costs that 10,000 subscriptions conflate, since their intervals are not over.
func BenchmarkRateBusy(b *testing.B) {
	const clients = 10_000
	h := benchHub(b)
	for i := range clients {
		s, err := h.Connect(&sink{count: &atomic.Int64{}, all: -1}, text{}, client(fmt.Sprint(i)))
		must(b, err)
		b.Cleanup(s.Close)
		must(b, s.Subscribe(b.Context(), hub.SubscribeRequest{Channel: "value:x", Interval: time.Hour}, quietly))
	}
	cpu, n := cpuTime(b), 0
	for b.Loop() {
		n++
		publish(b, h, "value:x", push.Publication{Data: []byte("1")})
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(n)/clients, "CPU-ns/subscription")
}

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
