package memory_test

import (
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
)

// idle is a follower that does nothing.
type idle struct{}

func (idle) Deliver([]broker.Message) {}
func (idle) Gap(string, uint64)       {}
func (idle) Advance(uint64)           {}
func (idle) Reset(push.Position)      {}

// benchmark opens a namespace n with followers, ready to be published to.
func benchmark(b *testing.B, followers int) (br *memory.Broker, channels []string) {
	b.Helper()
	br = memory.New(nil)
	b.Cleanup(func() { _ = br.Close() })
	ns := broker.Namespace{Name: "n", Mode: push.Stream, History: push.History{Size: 100}, Partitions: 1}
	if err := br.Open(b.Context(), ns); err != nil {
		b.Fatal(err)
	}
	for range followers {
		if _, err := br.Attach(b.Context(), broker.Partition{Namespace: "n"}, idle{}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 1000 {
		channels = append(channels, fmt.Sprintf("n:%d", i))
	}
	return br, channels
}

// BenchmarkPublish publishes to a thousand channels in turn, the history of each full.
func BenchmarkPublish(b *testing.B) {
	p := push.Publication{Data: []byte(`{"price":"1.00"}`)}
	for _, followers := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			br, channels := benchmark(b, followers)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				if _, err := br.Publish(b.Context(), channels[i%len(channels)], p, broker.PublishOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPublishKeyed publishes with an idempotency key each time.
func BenchmarkPublishKeyed(b *testing.B) {
	br, channels := benchmark(b, 1)
	p := push.Publication{Data: []byte(`{"price":"1.00"}`)}
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		o := broker.PublishOptions{IdempotencyKey: keys[i%len(keys)]}
		if _, err := br.Publish(b.Context(), channels[i%len(channels)], p, o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad loads a channel of a hundred publications.
func BenchmarkLoad(b *testing.B) {
	br, _ := benchmark(b, 0)
	for range 100 {
		p := push.Publication{Data: []byte(`{"price":"1.00"}`)}
		if _, err := br.Publish(b.Context(), "n:1", p, broker.PublishOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := br.Load(b.Context(), "n:1", broker.LoadOptions{}, func(broker.Message) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
