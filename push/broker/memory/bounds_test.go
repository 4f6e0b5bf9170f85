package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/pushtest"
)

var partition = broker.Partition{Namespace: "n"}

// start opens a broker with the namespace n, and closes it when the test ends.
func start(t *testing.T, o *memory.Options, mode push.Mode, h push.History) *memory.Broker {
	t.Helper()
	b := memory.New(o)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Open(t.Context(), broker.Namespace{Name: "n", Mode: mode, History: h, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	return b
}

// publish publishes and returns the offset.
func publish(t *testing.T, b broker.Broker, channel string, p push.Publication) uint64 {
	t.Helper()
	pos, err := b.Publish(t.Context(), channel, p, broker.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pos.Offset
}

// stuck is a follower that blocks in Deliver until it is released.
type stuck struct {
	entered chan struct{}
	open    chan struct{}
}

func newStuck() *stuck { return &stuck{make(chan struct{}, 1000), make(chan struct{})} }

func (s *stuck) Deliver([]broker.Message) {
	s.entered <- struct{}{}
	<-s.open
}
func (s *stuck) Gap(string, uint64)  {}
func (s *stuck) Advance(uint64)      {}
func (s *stuck) Reset(push.Position) {}

// fill attaches a stuck follower and publishes until there is no more room.
func fill(t *testing.T, b *memory.Broker, messages int, p push.Publication) (*stuck, broker.Attachment) {
	t.Helper()
	f := newStuck()
	a, err := b.Attach(t.Context(), partition, f)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, "n:1", p)
	testwait.Receive(t, f.entered)
	for range messages {
		publish(t, b, "n:1", p)
	}
	return f, a
}

// TestQueueBounds: a queue holds as many messages or bytes as it is allowed, and no more.
func TestQueueBounds(t *testing.T) {
	kilobyte := push.Publication{Data: make([]byte, 1000)}
	tests := []struct {
		name     string
		options  memory.Options
		messages int
	}{
		{"default", memory.Options{}, 1024},
		{"messages", memory.Options{Queue: 7}, 7},
		{"off", memory.Options{Queue: -1}, 1},
		{"bytes", memory.Options{QueueBytes: 10_000}, 10},
		{"bytes, over by one", memory.Options{QueueBytes: 9_500}, 10},
		{"bytes off", memory.Options{QueueBytes: -1, Queue: 30}, 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.PublishWait = -1
			b := start(t, &tt.options, push.Stream, push.History{})
			f, _ := fill(t, b, tt.messages, kilobyte)
			defer close(f.open)
			if _, err := b.Publish(t.Context(), "n:1", kilobyte, broker.PublishOptions{}); !errors.Is(err, broker.ErrBusy) {
				t.Errorf("publish beyond the bound: %v, want ErrBusy", err)
			}
			head, err := b.Head(t.Context(), partition)
			if want := uint64(tt.messages) + 1; err != nil || head.Offset != want {
				t.Errorf("the head is %v (%v), want offset %d", head, err, want)
			}
		})
	}
}

// TestPublishWaits: a publish that finds no room waits for it, for as long as it may.
func TestPublishWaits(t *testing.T) {
	tests := []struct {
		name string
		then func(b *memory.Broker, f *stuck, a broker.Attachment, cancel func())
		want error
	}{
		{"until the bound", func(*memory.Broker, *stuck, broker.Attachment, func()) {}, broker.ErrBusy},
		{"until there is room", func(_ *memory.Broker, f *stuck, _ broker.Attachment, _ func()) { close(f.open) }, nil},
		{"until the context is done", func(_ *memory.Broker, _ *stuck, _ broker.Attachment, cancel func()) { cancel() }, context.Canceled},
		{"until the follower is gone", func(_ *memory.Broker, f *stuck, a broker.Attachment, _ func()) {
			go a.Detach()
		}, nil},
		{"until the broker is closed", func(b *memory.Broker, _ *stuck, _ broker.Attachment, _ func()) {
			go func() { _ = b.Close() }()
		}, broker.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, &memory.Options{Queue: 3}, push.Stream, push.History{})
				f, a := fill(t, b, 3, push.Publication{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, ended := time.Now(), make(chan error, 1)
				go func() {
					_, err := b.Publish(ctx, "n:1", push.Publication{}, broker.PublishOptions{})
					ended <- err
				}()
				synctest.Wait()
				if len(ended) > 0 {
					t.Fatalf("it did not wait: %v", <-ended)
				}
				tt.then(b, f, a, cancel)
				err := <-ended
				isBusy := errors.Is(err, broker.ErrBusy)
				if took := time.Since(began); !errors.Is(err, tt.want) || (took == 5*time.Second) != isBusy {
					t.Errorf("it ended after %v with %v, want %v", took, err, tt.want)
				}
				select {
				case <-f.open:
				default:
					close(f.open)
				}
				synctest.Wait()
			})
		})
	}
}

// TestTellWaits: Tell waits for a listener that does not keep up, after the others have got the message.
func TestTellWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil, push.Stream, push.History{})
		open := make(chan struct{})
		heard := 0
		for _, handle := range []func([]byte){func([]byte) { <-open }, func([]byte) { heard++ }} {
			if _, err := b.Listen(t.Context(), "node", handle); err != nil {
				t.Fatal(err)
			}
		}
		for range 65 { // one is being handled, 64 wait
			if err := b.Tell(t.Context(), "node", nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		began := time.Now()
		if err := b.Tell(t.Context(), "", nil); !errors.Is(err, broker.ErrBusy) || time.Since(began) != 5*time.Second {
			t.Errorf("tell without room: %v after %v, want ErrBusy after 5s", err, time.Since(began))
		}
		synctest.Wait()
		if heard != 66 {
			t.Errorf("the other listener heard %d messages, want 66", heard)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Tell(ctx, "", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("tell without room and time: %v", err)
		}
		close(open)
		synctest.Wait()
		if err := b.Tell(t.Context(), "", nil); err != nil {
			t.Errorf("tell to listeners that have caught up: %v", err)
		}
	})
}

// TestIdempotencyKeysBound: if as many keys are remembered as allowed, the oldest makes room for another, and no publisher is stopped.
func TestIdempotencyKeysBound(t *testing.T) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := start(t, &memory.Options{Now: clock.Now, IdempotencyKeys: 3}, push.Stream, push.History{})
	for i, tt := range []struct {
		key  string
		want uint64
	}{
		{"a", 1}, {"b", 2}, {"c", 3}, {"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"b", 2}, {"a", 5}, {"c", 3}, {"d", 4}, {"b", 6}, {"", 7},
	} {
		pos, err := b.Publish(t.Context(), "n:1", push.Publication{}, broker.PublishOptions{IdempotencyKey: tt.key})
		if err != nil || pos.Offset != tt.want {
			t.Errorf("publish %d, with key %q: %d (%v), want %d", i, tt.key, pos.Offset, err, tt.want)
		}
	}
}

// TestLeasesAreGivenUp: leases that have ended do not take memory for long, even if no caller lists them.
func TestLeasesAreGivenUp(t *testing.T) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := start(t, &memory.Options{Now: clock.Now}, push.Stream, push.History{})
	for i := range 10_000 {
		if err := b.PutLease(t.Context(), broker.Lease{Key: fmt.Sprint(i)}, 100*time.Second); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
		if held := b.HeldLeases(); held > 2*100+17 {
			t.Fatalf("%d leases are held, 100 are alive", held)
		}
	}
}

// TestDurableIsRefused: a durable namespace is refused with an error that says what to do.
func TestDurableIsRefused(t *testing.T) {
	b := start(t, nil, push.Stream, push.History{})
	err := b.Open(t.Context(), broker.Namespace{Name: "orders", Partitions: 1, Durable: true})
	if err == nil || !strings.Contains(err.Error(), `memory: open namespace "orders": `) || !strings.Contains(err.Error(), "durable") {
		t.Errorf("opened with %v", err)
	}
}
