package reconnect_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
)

// BenchmarkPick measures the cost of picking a session.
func BenchmarkPick(b *testing.B) {
	ln := transport.NewMemory(0)
	srv := session.NewServer(codec.Line{}, nil, nil)
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	for name, policy := range map[string]reconnect.Policy{
		"in turn": reconnect.RoundRobin, "least pending": reconnect.LeastPending, "by key": reconnect.ByKey,
	} {
		for _, n := range []int{10, 100} {
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				pool, err := reconnect.New(client, &reconnect.Options{
					Addresses: []string{"memory"}, Sessions: n, Policy: policy, Handler: &session.Handler{},
					Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) },
				})
				if err != nil {
					b.Fatal(err)
				}
				defer pool.Close()
				if err := pool.Wait(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					e, err := pool.Acquire("a key of some length")
					if err != nil {
						b.Fatal(err)
					}
					e.Release()
				}
			})
		}
	}
}
