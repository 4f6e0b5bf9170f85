package link_test

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
)

// A hub serves its broker, and a gateway publishes and reads over the link.
func Example() {
	store := memory.New(nil)
	defer store.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	hub := hublink.NewServer(store, &hublink.Options{Secret: "s3cret"})
	served := make(chan error)
	go func() { served <- hub.Serve(ln) }()

	gateway, err := link.New(&link.Options{Placement: link.Fixed{ln.Addr().String()}, Secret: "s3cret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = gateway.Open(ctx, broker.Namespace{Name: "quotes", Mode: push.Table, Partitions: 4})
	if err == nil {
		_, err = gateway.Publish(ctx, "quotes:fx", push.Publication{Key: "EURUSD", Data: []byte("1.08")}, broker.PublishOptions{})
	}
	if err == nil {
		_, err = gateway.Load(ctx, "quotes:fx", broker.LoadOptions{}, func(m broker.Message) error {
			fmt.Println(m.Channel, m.Key, string(m.Data))
			return nil
		})
	}
	if err != nil {
		fmt.Println(err)
	}
	_ = gateway.Close()
	_ = hub.Close()
	<-served
	// Output: quotes:fx EURUSD 1.08
}
