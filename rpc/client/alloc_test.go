//go:build !race

package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
)

// echoRaw has the server handle a method whose bodies are bytes.
func (p *place) echoRaw() {
	m := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	m.Inline = true
	p.server.Handle("Raw", m)
}

// Do allocates no more than Do of a connection. The difference is that of the averages of many calls, in which the server has a share.
func TestDoAllocatesNothing(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	p.echoRaw()
	o := &rpc.ConnOptions{Form: rpc.Raw, Heartbeat: -1}
	conn, err := rpc.Dial(testwait.Context(t), "tcp", p.address, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const runs = 1000
	request := &rpc.Request{Method: "Raw"}
	in, ctx := []byte("0123456789"), context.Background()
	var inValue any = in
	alone := testing.AllocsPerRun(runs, func() {
		if err := conn.Do(ctx, request, inValue, nil); err != nil {
			t.Error(err)
		}
	})
	for _, policy := range []balance.Policy{balance.RoundRobin, balance.LeastPending, balance.ByKey} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			c := newClient(t, &registry, &client.Options{Conn: o, Balance: &balance.Options{Policy: policy}})
			connected(t, c, 1)
			call := &client.Call{Key: "key"}
			call.Method = "Raw"
			got := testing.AllocsPerRun(runs, func() {
				if err := c.Do(ctx, call, inValue, nil); err != nil {
					t.Error(err)
				}
			})
			if string(call.Reply()) != string(in) {
				t.Errorf("answered %q", call.Reply())
			}
			if got > alone+0.5 {
				t.Errorf("%.2f allocations, %.2f without the client", got, alone)
			}
		})
	}
}

// BenchmarkDo compares calls over a client with calls over a connection.
func BenchmarkDo(b *testing.B) {
	var registry discovery.Memory
	p := newPlace(b, &registry)
	p.echoRaw()
	o := &rpc.ConnOptions{Form: rpc.Raw}
	ctx := context.Background()
	var in any = []byte("0123456789")
	b.Run("conn", func(b *testing.B) {
		conn, err := rpc.Dial(ctx, "tcp", p.address, o)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			request := &rpc.Request{Method: "Raw"}
			for pb.Next() {
				if err := conn.Do(ctx, request, in, nil); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("client", func(b *testing.B) {
		c := newClient(b, &registry, &client.Options{Conn: o})
		connected(b, c, 1)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			call := &client.Call{}
			call.Method = "Raw"
			for pb.Next() {
				if err := c.Do(ctx, call, in, nil); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
