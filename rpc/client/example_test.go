package client_test

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
)

// A client calls the servers of a service in turn. One of them stops, and its calls go to the other.
func Example() {
	type greeting struct{ Text string }
	var registry discovery.Memory
	ctx := context.Background()
	var leave func()
	for _, name := range []string{"a", "b"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			return
		}
		srv := rpc.NewServer(nil)
		rpc.Handle(srv, "Greet", func(_ context.Context, in *greeting) (*greeting, error) {
			return &greeting{in.Text + " from " + name}, nil
		})
		go func() { _ = srv.Serve(ln) }()
		defer func() { _ = srv.Close() }()
		registration, err := registry.Register(ctx, "greeter", discovery.Endpoint{Address: ln.Addr().String()})
		if err != nil {
			fmt.Println(err)
			return
		}
		leave = func() {
			_ = registration.Close(ctx)
			_ = srv.Shutdown(ctx)
		}
	}
	c := client.New(discovery.NewSteady(&registry, nil), "greeter", &client.Options{Balance: &balance.Options{Policy: balance.RoundRobin}})
	defer func() { _ = c.Close() }()
	if err := c.Wait(ctx, 2); err != nil {
		fmt.Println(err)
		return
	}
	got := map[string]int{}
	greet := func() {
		var out greeting
		if err := c.Call(ctx, "Greet", &greeting{"hello"}, &out); err != nil {
			fmt.Println(err)
		}
		got[out.Text]++
	}
	for range 10 {
		greet()
	}
	leave()
	for range 10 {
		greet()
	}
	fmt.Println(got)
	// Output: map[hello from a:15 hello from b:5]
}
