package grpc_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// BenchmarkDeliver measures a publication of 128 bytes on its way through the hub to clients on one connection. The time is that of both sides, for each
// delivery.
func BenchmarkDeliver(b *testing.B) {
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			n := newNode(b, nil, nil)
			ctx, cc := testwait.Context(b), n.dial()
			var all []clientv1.Client_ConnectClient
			for range clients {
				all = append(all, n.subscriber(ctx, cc, "a"))
			}
			data := `"` + fmt.Sprintf("%0126d", 0) + `"`
			b.ReportAllocs()
			for b.Loop() {
				n.publish("a", data)
				for _, c := range all {
					receive(b, c)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*clients), "ns/delivery")
		})
	}
}

// BenchmarkIdle measures the memory of a connected client, on this side.
func BenchmarkIdle(b *testing.B) {
	for _, calls := range []int{1, 100} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			n := newNode(b, nil, nil)
			const clients = 1000
			memory := func() uint64 {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapInuse + m.StackInuse
			}
			before := memory()
			for b.Loop() {
				var peers []*peer
				for range clients / calls {
					p := n.peer()
					peers = append(peers, p)
					for i := range calls {
						p.call(uint32(2*i+1), "/sluice.client.v1.Client/Connect")
						p.data(uint32(2*i+1), []byte{8, 1, 34, 0})
					}
				}
				testwait.True(b, "all connected", func() bool { return n.stats().Opened%clients == 0 && n.transport.Len() == clients })
				b.ReportMetric(float64(memory()-before)/clients, "B/client")
				for _, p := range peers {
					_ = p.conn.Close()
				}
				testwait.True(b, "all gone", func() bool { return n.transport.Len() == 0 })
			}
		})
	}
}
