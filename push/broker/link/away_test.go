package link_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
)

// While a hub is away from its broker, gateways use the next one: for what they follow, for calls, leases and control messages. If there is none, nothing
// is stored, until a hub is back.
func TestHubIsAway(t *testing.T) {
	first := newHub(t, hublink.Options{}, memory.Options{})
	second := &hub{t: t, address: "127.0.0.1:0", broker: first.broker}
	second.serve()
	t.Cleanup(second.stop)
	hubs := &movable{changed: make(chan struct{})}
	hubs.set(first.address, second.address)
	b, err := link.New(&link.Options{Placement: hubs, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	f := &follower{}
	attach(t, b, f, "n:a")
	heard := make(chan struct{}, 100)
	stop, err := b.Listen(testwait.Context(t), "me", func([]byte) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	f.reaches(t, publish(t, b, "n:a", 10))

	first.server.SetAway(true)
	f.reaches(t, publish(t, b, "n:a", 10))
	if err := b.PutLease(testwait.Context(t), broker.Lease{Key: "k"}, time.Minute); err != nil {
		t.Error(err)
	}
	testwait.True(t, "it hears control messages", func() bool {
		if err := b.Tell(testwait.Context(t), "me", nil); err != nil {
			t.Error(err)
		}
		return len(heard) > 0
	})

	second.server.SetAway(true)
	_, err = b.Publish(testwait.Context(t), "n:a", push.Publication{}, broker.PublishOptions{})
	if !errors.Is(err, broker.ErrBusy) {
		t.Errorf("without any hub: %v", err)
	}
	last := publish(t, first.broker, "n:a", 10)
	first.server.SetAway(false)
	f.reaches(t, last)
	if got, _ := f.offsets(); len(got) != 30 || got[29] != 30 || f.resets > 0 || len(f.gaps) > 0 {
		t.Errorf("it got %v, gaps %v, %d resets", got, f.gaps, f.resets)
	}
}
