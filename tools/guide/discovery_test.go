package guide_test

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

func follow(ctx context.Context, resolver discovery.Resolver, service string, pool *reconnect.Pool) error {
	return discovery.NewSteady(resolver, nil).Watch(ctx, service, func(set []discovery.Endpoint) {
		addresses := make([]string, len(set))
		for i := range set {
			addresses[i] = set[i].Address
		}
		_ = pool.SetAddresses(addresses) // without any address the pool stays as it is
	})
}

func Example_discovery() {
	var registry discovery.Memory
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var registered []discovery.Registration
	for i := range 2 {
		srv := session.NewServer(codec.Line{}, &session.Handler{Open: func(s *session.Session) error { return s.Send(fmt.Append(nil, "server ", i)) }}, nil)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()
		registration, err := registry.Register(ctx, "greetings", discovery.Endpoint{Address: ln.Addr().String()})
		if err != nil {
			panic(err)
		}
		registered = append(registered, registration)
	}
	_ = registered[1].Close(ctx) // the second server is about to stop

	greeted := make(chan string, 10)
	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	pool, err := reconnect.New(client, &reconnect.Options{
		Addresses: []string{"127.0.0.1:1"}, // until the first set is known
		Handler:   &session.Handler{Message: func(_ *session.Session, msg []byte) { greeted <- string(msg) }},
	})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	pool.Start()
	go func() { _ = follow(ctx, &registry, "greetings", pool) }()
	fmt.Println(<-greeted)
	// Output: server 0
}
