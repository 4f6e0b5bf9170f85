package hub_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
)

// sink is a carrier that takes everything and counts it.
type sink struct {
	count *atomic.Int64
	all   int64 // tell done when count gets here
	done  chan struct{}
}

func (s *sink) TryWrite(frames []hub.Frame) int {
	n := 0
	for i := range frames {
		n += frames[i].Publications
	}
	if s.count.Add(int64(n)) == s.all {
		s.done <- struct{}{}
	}
	return len(frames)
}

func (*sink) Disconnect(push.Disconnect) {}

func benchHub(b *testing.B) *hub.Hub {
	b.Helper()
	return benchHubWith(b, &hub.Options{})
}

func benchHubWith(b *testing.B, o *hub.Options) *hub.Hub {
	b.Helper()
	m := memory.New(nil)
	b.Cleanup(func() { must(b, m.Close()) })
	ns := spaces(push.History{Size: 100})
	for i := range ns {
		ns[i].Presence = false
	}
	o.SubscriptionsPerSession = -1
	return newHub(b, m, ns, o)
}

func quietly(hub.Subscribed) error { return nil }

// BenchmarkDeliver publishes in batches of 100 and waits until all subscribers were offered all of them, without and with an observer.
func BenchmarkDeliver(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) { deliver(b, n, hub.Observer{}) })
		b.Run(fmt.Sprintf("subscribers=%d/observed", n), func(b *testing.B) {
			var passes, took, deliveries, age atomic.Int64
			deliver(b, n, hub.Observer{
				BatchDone: func(d time.Duration, _ int) { passes.Add(1); took.Add(int64(d)) },
				Delivered: func(d time.Duration, n int, _ bool) {
					deliveries.Add(int64(n))
					age.Add(int64(d))
				},
			})
			b.ReportMetric(float64(deliveries.Load())/float64(passes.Load()), "deliveries/pass")
		})
	}
}

func deliver(b *testing.B, n int, o hub.Observer) {
	const batch = 100
	h := benchHubWith(b, &hub.Options{Observer: o})
	count, done := &atomic.Int64{}, make(chan struct{}, 1)
	for i := range n {
		s, err := h.Connect(&sink{count, int64(n * batch), done}, text{}, client(fmt.Sprint(i)))
		must(b, err)
		b.Cleanup(s.Close)
		must(b, s.Subscribe(b.Context(), hub.SubscribeRequest{Channel: "stream:x"}, quietly))
	}
	data := make([]byte, 100)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		rounds++
		count.Store(0)
		for range batch {
			if _, err := h.Publish(b.Context(), "stream:x", push.Publication{Data: data}, ""); err != nil {
				b.Fatal(err)
			}
		}
		<-done
	}
	runtime.ReadMemStats(&after)
	deliveries := float64(rounds) * float64(n*batch)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/deliveries, "ns/delivery")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/deliveries, "allocs/delivery")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkIdle measures what is held for subscriptions that get nothing, in bytes.
func BenchmarkIdle(b *testing.B) {
	const n = 100_000
	tests := []struct {
		name    string
		channel func(i int) string
	}{
		{"subscription", func(int) string { return "value:x" }},
		{"value channel with one subscriber", func(i int) string { return fmt.Sprintf("value:%d", i) }},
		{"stream channel with one subscriber", func(i int) string { return fmt.Sprintf("stream:%d", i) }},
		{"table channel with one subscriber", func(i int) string { return fmt.Sprintf("table:%d", i) }},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := benchHub(b)
				sessions := make([]*hub.Session, n/100)
				for i := range sessions {
					s, err := h.Connect(&sink{count: &atomic.Int64{}}, text{}, client(fmt.Sprint(i)))
					must(b, err)
					sessions[i] = s
				}
				if tt.name == "subscription" { // one session cannot subscribe twice
					sessions = sessions[:0]
					for i := range n {
						s, err := h.Connect(&sink{}, text{}, client(fmt.Sprint("s", i)))
						must(b, err)
						sessions = append(sessions, s)
					}
				}
				before := heapInUse()
				for i := range n {
					r := hub.SubscribeRequest{Channel: tt.channel(i)}
					must(b, sessions[i%len(sessions)].Subscribe(b.Context(), r, quietly))
				}
				b.ReportMetric(float64(heapInUse()-before)/n, "B/each")
				must(b, h.Close())
			}
		})
	}
}

// BenchmarkSubscribe subscribes to a channel that is loaded, and unsubscribes.
func BenchmarkSubscribe(b *testing.B) {
	h := benchHub(b)
	keep, err := h.Connect(&sink{count: &atomic.Int64{}}, text{}, client("keep"))
	must(b, err)
	b.Cleanup(keep.Close)
	must(b, keep.Subscribe(b.Context(), hub.SubscribeRequest{Channel: "stream:x"}, quietly))
	s, err := h.Connect(&sink{count: &atomic.Int64{}}, text{}, client("a"))
	must(b, err)
	b.Cleanup(s.Close)
	b.ReportAllocs()
	for b.Loop() {
		must(b, s.Subscribe(b.Context(), hub.SubscribeRequest{Channel: "stream:x"}, quietly))
		s.Unsubscribe("stream:x")
	}
}
