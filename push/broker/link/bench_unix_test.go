//go:build unix

package link_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
)

// direct is a broker whose followers get what the benchmark delivers.
type direct struct {
	broker.Broker
	follower atomic.Pointer[broker.Follower]
}

func (d *direct) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	d.follower.Store(&f)
	return d.Broker.Attach(ctx, p, f)
}

// counted counts messages, and wakes the benchmark when there are enough.
type counted struct {
	follower
	n    atomic.Int64
	want atomic.Int64
	wake chan struct{}
}

func (c *counted) Deliver(batch []broker.Message) {
	if c.n.Add(int64(len(batch))) >= c.want.Load() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// BenchmarkLink measures the way of a message of 200 bytes from the hub's broker to the gateway's follower, over TCP on loopback, when so many come at a
// time. cpu-ns/message is the CPU time of both ends.
func BenchmarkLink(b *testing.B) {
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			store := &direct{Broker: memory.New(nil)}
			defer store.Close()
			ln := listen(b)
			hub := hublink.NewServer(store, nil)
			served := make(chan error, 1)
			go func() { served <- hub.Serve(ln) }()
			gateway, err := link.New(&link.Options{Placement: link.Fixed{ln.Addr().String()}})
			if err != nil {
				b.Fatal(err)
			}
			ctx := testwait.Context(b)
			if err := gateway.Open(ctx, broker.Namespace{Name: "n", Partitions: 1}); err != nil {
				b.Fatal(err)
			}
			f := &counted{wake: make(chan struct{}, 1)}
			a, err := gateway.Attach(ctx, broker.Partition{Namespace: "n"}, f)
			if err == nil {
				err = a.Want(ctx, "n:a")
			}
			if err != nil {
				b.Fatal(err)
			}
			batch := make([]broker.Message, size)
			for i := range batch {
				batch[i] = broker.Message{Channel: "n:a", Publication: push.Publication{Key: "EURUSD", Data: bytes.Repeat([]byte("x"), 200)}}
			}
			offset, to := uint64(1<<40), *store.follower.Load()
			const window = 4096 // messages on their way
			begin := cpuTime()
			b.ResetTimer()
			for sent := 0; sent < b.N; sent += size {
				for i := range batch {
					offset++
					batch[i].Offset = offset
				}
				to.Deliver(batch)
				f.await(int64(sent + size - window))
			}
			f.await(int64((b.N + size - 1) / size * size))
			b.ReportMetric(float64(cpuTime()-begin)/float64(b.N), "cpu-ns/message")
			_ = gateway.Close()
			_ = hub.Close()
			<-served
		})
	}
}

// await waits until so many messages have come.
func (c *counted) await(n int64) {
	for c.want.Store(n); c.n.Load() < n; {
		<-c.wake
	}
}

// cpuTime returns the CPU time of the process in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
