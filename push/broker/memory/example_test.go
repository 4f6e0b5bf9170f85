package memory_test

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
)

// printer is a follower that prints its messages.
type printer struct{ done chan struct{} }

func (p printer) Deliver(batch []broker.Message) {
	for _, m := range batch {
		fmt.Printf("%d: %s is %s\n", m.Offset, m.Key, m.Data)
	}
	close(p.done)
}
func (p printer) Gap(string, uint64)  {}
func (p printer) Advance(uint64)      {}
func (p printer) Reset(push.Position) {}

// A table of quotes: earlier publications are loaded, and later ones are delivered.
func Example() {
	ctx := context.Background()
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	if err := b.Open(ctx, broker.Namespace{Name: "quotes", Mode: push.Table, Partitions: 1}); err != nil {
		fmt.Println(err)
		return
	}
	publish := func(price string) {
		p := push.Publication{Key: "ACME", Data: []byte(price)}
		if _, err := b.Publish(ctx, "quotes:nyse", p, broker.PublishOptions{}); err != nil {
			fmt.Println(err)
		}
	}
	publish("100")
	publish("101")

	follower := printer{make(chan struct{})}
	attachment, err := b.Attach(ctx, broker.PartitionOf("quotes:nyse", 1), follower)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer attachment.Detach()
	_, err = b.Load(ctx, "quotes:nyse", broker.LoadOptions{}, func(p broker.Message) error {
		fmt.Printf("%d: %s was %s\n", p.Offset, p.Key, p.Data)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	publish("102")
	<-follower.done
	// Output:
	// 2: ACME was 101
	// 3: ACME is 102
}
