package pushtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/pushtest"
)

// A broker that is busy for a while.
func ExampleFaulty() {
	ctx := context.Background()
	b := pushtest.NewFaulty(memory.New(nil))
	defer func() { _ = b.Close() }()
	if err := b.Open(ctx, broker.Namespace{Name: "chat", Partitions: 1}); err != nil {
		fmt.Println(err)
	}
	publish := func() {
		pos, err := b.Publish(ctx, "chat:1", push.Publication{Data: []byte(`"hello"`)}, broker.PublishOptions{})
		fmt.Println(pos.Offset, errors.Is(err, broker.ErrBusy))
	}
	b.Fail(pushtest.OpPublish, broker.ErrBusy)
	publish()
	b.Fail(pushtest.OpPublish, nil)
	publish()
	// Output:
	// 0 true
	// 1 false
}

// A clock that the test advances makes a broker evict old publications.
func ExampleClock() {
	ctx := context.Background()
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := memory.New(&memory.Options{Now: clock.Now})
	defer func() { _ = b.Close() }()
	if err := b.Open(ctx, broker.Namespace{Name: "chat", History: push.History{Age: time.Hour}, Partitions: 1}); err != nil {
		fmt.Println(err)
	}
	if _, err := b.Publish(ctx, "chat:1", push.Publication{Data: []byte(`"hello"`)}, broker.PublishOptions{}); err != nil {
		fmt.Println(err)
	}
	clock.Advance(2 * time.Hour)
	h, err := b.Load(ctx, "chat:1", broker.LoadOptions{}, func(broker.Message) error {
		fmt.Println("never called")
		return nil
	})
	fmt.Println("complete from", h.Floor, "to", h.Head, err)
	// Output: complete from 1 to 1 <nil>
}
