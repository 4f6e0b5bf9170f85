package hub_test

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// lines is a carrier that takes everything, for one client.
type lines chan string

func (l lines) TryWrite(frames []hub.Frame) int {
	for _, f := range frames {
		l <- string(f.Bytes)
	}
	return len(frames)
}

func (lines) Disconnect(push.Disconnect) {}

// plain is an encoder for people.
type plain struct{}

func (plain) FrameBytes() int { return 0 } // one publication a frame

func (plain) AppendPublications(dst []byte, to hub.Address, ds []channel.Delivery) []byte {
	return fmt.Appendf(dst, "%s: %s is %s", to.Channel, ds[0].Entry.Key, ds[0].Entry.Data)
}

func (plain) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return fmt.Appendf(dst, "%s: %s", name, u.Reason)
}

// A table of prices: a subscriber gets the rows with the answer, and later changes as pushes.
func Example() {
	ctx := context.Background()
	b := memory.New(nil)
	defer b.Close()
	prices := hub.Namespace{Namespace: broker.Namespace{Name: "prices", Mode: push.Table, History: push.History{Size: 100}}}
	h, err := hub.New(ctx, b, []hub.Namespace{prices}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	_, _ = h.Publish(ctx, "prices:all", push.Publication{Key: "AAPL", Data: []byte("230.1")}, "")

	client := make(lines, 10)
	s, err := h.Connect(client, plain{}, hub.SessionOptions{Info: push.ClientInfo{Client: "1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	err = s.Subscribe(ctx, hub.SubscribeRequest{Channel: "prices:all"}, func(answer hub.Subscribed) error {
		for _, d := range answer.Deliveries {
			fmt.Printf("answer: %s is %s\n", d.Entry.Key, d.Entry.Data)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = h.Publish(ctx, "prices:all", push.Publication{Key: "MSFT", Data: []byte("411.7")}, "")
	fmt.Println(<-client)
	// Output:
	// answer: AAPL is 230.1
	// prices:all: MSFT is 411.7
}
