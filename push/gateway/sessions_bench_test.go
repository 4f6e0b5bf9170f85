package gateway_test

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
)

// crowd is a transport of clients that only exist.
type crowd struct {
	gateway.Transport
	all []*gateway.Client
}

func (c *crowd) Shutdown(context.Context) error     { return nil }
func (c *crowd) Len() int                           { return len(c.all) }
func (c *crowd) Clients() iter.Seq[*gateway.Client] { return slices.Values(c.all) }

// BenchmarkSessions lists 100,000 clients, as a cluster does once a second, and looks at what is known of each.
func BenchmarkSessions(b *testing.B) {
	const clients = 100_000
	c := new(crowd)
	p := newPlace(b, &gateway.Options{Routes: newDirectory(ofA)})
	g := gateway.New(p.hub, &gateway.Options{Routes: newDirectory(ofA)}, func(*gateway.Gateway) gateway.Transport { return c })
	defer func() { must(b, g.Shutdown(b.Context())) }()
	for i := range clients {
		one := new(gateway.Client)
		one.Answered(g, route.Client{User: fmt.Sprint("user", i), Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Claims: map[string]string{"tier": "vip"}})
		c.all = append(c.all, one)
	}
	b.ReportAllocs()
	for b.Loop() {
		users := 0
		for s := range g.Sessions() {
			users += len(s.Client.User)
		}
		if users < clients {
			b.Fatal("clients are missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/clients, "ns/client")
}
