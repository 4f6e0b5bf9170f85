package pushtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/pushtest"
)

// TestFaultyConforms: without requested faults the broker passes the suite.
func TestFaultyConforms(t *testing.T) {
	pushtest.RunBroker(t, func(*testing.T) pushtest.Harness {
		h, _ := open()
		renew := h.Recreate
		h.Broker, h.Recreate = pushtest.NewFaulty(h.Broker), func() broker.Broker { return pushtest.NewFaulty(renew()) }
		return h
	})
}

// log is a follower that records its calls as text.
type log struct{ events chan string }

func (l log) Deliver(batch []broker.Message) {
	for _, m := range batch {
		l.events <- fmt.Sprintf("%d", m.Offset)
	}
}
func (l log) Gap(_ string, offset uint64) { l.events <- fmt.Sprintf("gap to %d", offset) }
func (l log) Advance(uint64)              {}
func (l log) Reset(start push.Position) {
	l.events <- fmt.Sprintf("reset to %s at %d", start.Epoch, start.Offset)
}

// expect reads as many events from the log as it wants, and compares them.
func (l log) expect(t *testing.T, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pushtest.Patience)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		select {
		case event := <-l.events:
			got = append(got, event)
		case <-ctx.Done():
			t.Fatalf("only %q happened, want %q", got, want)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q happened, want %q", got, want)
	}
}

var part = broker.Partition{Namespace: "n"}

// faulty returns a faulty broker with a namespace and a follower.
func faulty(t *testing.T) (*pushtest.Faulty, log, broker.Attachment) {
	t.Helper()
	f := pushtest.NewFaulty(memory.New(nil))
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Open(t.Context(), broker.Namespace{Name: "n", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	l := log{make(chan string, 100)}
	a, err := f.Attach(t.Context(), part, l)
	if err != nil {
		t.Fatal(err)
	}
	return f, l, a
}

func publish(t *testing.T, f *pushtest.Faulty, n int) (last push.Position) {
	t.Helper()
	for range n {
		var err error
		if last, err = f.Publish(t.Context(), "n:1", push.Publication{}, broker.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// operations returns the operations that can be made to fail.
func operations(ctx context.Context, f *pushtest.Faulty) map[pushtest.Operation]func() error {
	return map[pushtest.Operation]func() error{
		pushtest.OpPublish: func() error {
			_, err := f.Publish(ctx, "n:1", push.Publication{}, broker.PublishOptions{})
			return err
		},
		pushtest.OpAttach: func() error {
			a, err := f.Attach(ctx, part, log{make(chan string, 100)})
			if err == nil {
				a.Detach()
			}
			return err
		},
		pushtest.OpLoad: func() error {
			_, err := f.Load(ctx, "n:1", broker.LoadOptions{}, func(broker.Message) error { return nil })
			return err
		},
		pushtest.OpHead: func() error {
			_, err := f.Head(ctx, part)
			return err
		},
		pushtest.OpTell: func() error { return f.Tell(ctx, "", nil) },
		pushtest.OpLease: func() error {
			_, err := f.ListLeases(ctx, "")
			return errors.Join(err, f.PutLease(ctx, broker.Lease{Key: "k"}, time.Minute), f.DropLease(ctx, "k"))
		},
	}
}

func TestFaultyFails(t *testing.T) {
	f, _, _ := faulty(t)
	broken := errors.New("broken")
	for op, do := range operations(t.Context(), f) {
		t.Run(string(op), func(t *testing.T) {
			f.Fail(op, broken)
			if err := do(); !errors.Is(err, broken) {
				t.Errorf("%v, want %v", err, broken)
			}
			f.Fail(op, nil)
			if err := do(); err != nil {
				t.Errorf("it still fails: %v", err)
			}
		})
	}
}

func TestFaultyBlocks(t *testing.T) {
	f, _, _ := faulty(t)
	ctx, cancel := context.WithCancel(t.Context())
	for op, do := range operations(ctx, f) {
		t.Run(string(op), func(t *testing.T) {
			release := f.Block(op)
			ended := make(chan error, 1)
			go func() { ended <- do() }()
			release()
			release()
			if err := testwait.Receive(t, ended); err != nil {
				t.Errorf("it was released and fails: %v", err)
			}
		})
	}
	cancel()
	for op, do := range operations(ctx, f) {
		release := f.Block(op)
		if err := do(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that is done: %v", op, err)
		}
		release()
	}
}

func TestFaultyEvicts(t *testing.T) {
	f, l, _ := faulty(t)
	publish(t, f, 1)
	l.expect(t, "1")
	release := f.Hold(part)
	f.Evict(part, 3)
	publish(t, f, 1)
	release()
	l.expect(t, "gap to 2")
	publish(t, f, 1)
	l.expect(t, "gap to 3")
	publish(t, f, 1)
	l.expect(t, "gap to 4")
	publish(t, f, 2)
	l.expect(t, "5", "6")
}

func TestFaultyResets(t *testing.T) {
	f, l, a := faulty(t)
	old := publish(t, f, 2)
	l.expect(t, "1", "2")
	if start := a.Start(); start.Epoch != old.Epoch {
		t.Errorf("attached in epoch %q, published in %q", start.Epoch, old.Epoch)
	}
	f.Reset(part)
	l.expect(t, "reset to life-2-of-n-0 at 2")
	next := publish(t, f, 1)
	l.expect(t, "3")
	head, err := f.Head(t.Context(), part)
	if err != nil || head != next || next.Epoch != "life-2-of-n-0" {
		t.Errorf("the head is %v (%v), published at %v", head, err, next)
	}
	h, err := f.Load(t.Context(), "n:1", broker.LoadOptions{}, func(broker.Message) error { return nil })
	if err != nil || h.Epoch != next.Epoch {
		t.Errorf("loaded in epoch %q (%v), want %q", h.Epoch, err, next.Epoch)
	}
	a.Detach()
	a.Detach()
	f.Reset(part)
	if len(l.events) > 0 {
		t.Errorf("a follower that is gone was told %q", testwait.Receive(t, l.events))
	}
	again, err := f.Attach(t.Context(), part, l)
	if err != nil || again.Start().Epoch != "life-3-of-n-0" {
		t.Errorf("attached from %v (%v), want the third life", again.Start(), err)
	}
}

// TestFaultyHolds: held deliveries are made after the release, and delay neither Detach nor Close.
func TestFaultyHolds(t *testing.T) {
	f, l, a := faulty(t)
	release := f.Hold(part)
	publish(t, f, 3)
	if len(l.events) > 0 {
		t.Errorf("delivered while held: %q", testwait.Receive(t, l.events))
	}
	release()
	release()
	l.expect(t, "1", "2", "3")
	f.Hold(part)
	publish(t, f, 1)
	a.Detach()
	if len(l.events) > 0 {
		t.Errorf("delivered while held: %q", testwait.Receive(t, l.events))
	}
	if _, err := f.Attach(t.Context(), part, l); err != nil {
		t.Fatal(err)
	}
	publish(t, f, 1) // and Close follows
}
