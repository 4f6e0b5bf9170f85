package nats_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// benched opens a broker on an embedded server with one namespace of each kind.
func benched(b *testing.B) *nats.Broker {
	b.Helper()
	br, err := nats.New(b.Context(), &nats.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = br.Close() })
	for name, mode := range map[string]push.Mode{"s": push.Stream, "t": push.Table} {
		ns := broker.Namespace{Name: name, Mode: mode, History: push.History{Size: 100}, Partitions: 1, Durable: true}
		if err := br.Open(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	return br
}

var benchData = make([]byte, 128)

// BenchmarkPublish is 64 publishers, each of which waits for its acknowledgements.
func BenchmarkPublish(b *testing.B) {
	for _, channels := range []uint64{1, 2000} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			br := benched(b)
			var n atomic.Uint64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					channel := fmt.Sprintf("s:%d", n.Add(1)%channels)
					if _, err := br.Publish(context.Background(), channel, push.Publication{Data: benchData}, broker.PublishOptions{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// signal is a follower that says that something was delivered.
type signal chan struct{}

func (s signal) Deliver(batch []broker.Message) {
	for range batch {
		s <- struct{}{}
	}
}
func (signal) Gap(string, uint64)  {}
func (signal) Advance(uint64)      {}
func (signal) Reset(push.Position) {}

// BenchmarkDeliver is the time from publishing to delivery, one at a time.
func BenchmarkDeliver(b *testing.B) {
	br := benched(b)
	s := make(signal, 1)
	if _, err := br.Attach(b.Context(), broker.Partition{Namespace: "s"}, s); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := br.Publish(b.Context(), "s:1", push.Publication{Data: benchData}, broker.PublishOptions{}); err != nil {
			b.Fatal(err)
		}
		<-s
	}
}

// fillChannels publishes n publications at once to channels that name names.
func fillChannels(b *testing.B, br *nats.Broker, n int, name func(i uint64) (channel, key string)) {
	b.Helper()
	var next atomic.Uint64
	done := make(chan error)
	for range 64 {
		go func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(n) {
					done <- nil
					return
				}
				channel, key := name(i)
				if _, err := br.Publish(b.Context(), channel, push.Publication{Key: key, Data: benchData}, broker.PublishOptions{}); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 64 {
		if err := testwait.Receive(b, done); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkLoadTable loads a table of 10,000 rows.
func BenchmarkLoadTable(b *testing.B) {
	br := benched(b)
	fillChannels(b, br, 10_000, func(i uint64) (string, string) { return "t:1", fmt.Sprint(i) })
	for b.Loop() {
		n := 0
		if _, err := br.Load(b.Context(), "t:1", broker.LoadOptions{}, func(broker.Message) error { n++; return nil }); err != nil || n != 10_000 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkLoadSmall loads channels of one publication, of 10,000 that there are, by several at once.
func BenchmarkLoadSmall(b *testing.B) {
	br := benched(b)
	fillChannels(b, br, 10_000, func(i uint64) (string, string) { return fmt.Sprintf("s:%d", i), "" })
	var n atomic.Uint64
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			channel := fmt.Sprintf("s:%d", n.Add(1)%10_000)
			if _, err := br.Load(context.Background(), channel, broker.LoadOptions{}, func(broker.Message) error { return nil }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkStart is from nothing to a namespace that can be used, and back.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		br, err := nats.New(b.Context(), &nats.Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		ns := broker.Namespace{Name: "s", Partitions: 1, Durable: true}
		if err := br.Open(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		if err := br.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
