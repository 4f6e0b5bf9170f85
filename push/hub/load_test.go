package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
)

var noOptions broker.PublishOptions

// untilAll returns a hook that lets loads go on when n of them have begun.
func untilAll(n int32) func(context.Context, string) error {
	var begun atomic.Int32
	all := make(chan struct{})
	return func(ctx context.Context, _ string) error {
		if begun.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// holdLoads makes loads wait, and returns what says that one has begun and what lets them go on.
func (r *rig) holdLoads() (begun <-chan string, release func()) {
	began, gate := make(chan string, 100), make(chan struct{})
	r.set(func(r *rig) {
		r.onLoad = func(ctx context.Context, name string) error {
			began <- name
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return began, sync.OnceFunc(func() { close(gate) })
}

// A channel is loaded once, however many ask for it at the same time.
func TestLoadOnce(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	begun, release := r.holdLoads()
	var wg sync.WaitGroup
	for i := range 50 {
		c := newCarrier(t, open, false)
		s := c.connect(h, client(fmt.Sprint(i)))
		wg.Go(func() {
			err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x"}, func(hub.Subscribed) error { return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	testwait.Receive(t, begun)
	testwait.True(t, "all wait", func() bool { return h.Holds("stream:x") == 50 })
	release()
	testwait.Return(t, wg.Wait)
	if n := r.loads.Load(); n != 1 {
		t.Errorf("it was loaded %d times", n)
	}
}

// If the broker cannot load a channel, the error says so, and the next request tries again.
func TestLoadFails(t *testing.T) {
	tests := []struct {
		name string
		hook func(context.Context, string) error
	}{
		{"error", func(context.Context, string) error { return errors.New("no") }},
		{"no answer", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{LoadTimeout: 20 * time.Millisecond})
			publishN(t, h, "stream:x", 1, 3)
			r.set(func(r *rig) { r.onLoad = tt.hook })
			s := newCarrier(t, open, false).connect(h, client("a"))
			for range 2 {
				err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x"}, unwanted(t))
				var e *push.Error
				if !errors.As(err, &e) || e.Code != 100 || !e.Temporary {
					t.Fatalf("got %v", err)
				}
			}
			if h.Holds("stream:x") != -1 {
				t.Errorf("the channel is still there, held by %d", h.Holds("stream:x"))
			}
			r.set(func(r *rig) { r.onLoad = nil })
			found, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{Limit: -1})
			must(t, err)
			if len(found.Entries) != 3 || r.loads.Load() != 3 {
				t.Errorf("%d entries after %d loads", len(found.Entries), r.loads.Load())
			}
		})
	}
}

// If the context of one caller ends before the load does, the load goes on for the others.
func TestLoadGivenUpByOne(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	begun, release := r.holdLoads()
	ctx, cancel := context.WithCancel(testwait.Context(t))
	refused := make(chan error, 1)
	go func() {
		_, err := h.History(ctx, "stream:x", hub.HistoryRequest{})
		refused <- err
	}()
	testwait.Receive(t, begun)
	cancel()
	if err := testwait.Receive(t, refused); !errors.Is(err, push.ErrInternal) {
		t.Errorf("got %v", err)
	}
	release()
	settle(t, h, "stream:x")
	if n := r.loads.Load(); n != 1 {
		t.Errorf("it was loaded %d times", n)
	}
}

// What arrives while a channel is loading joins what is loaded; when it is too much to be held back, the channel is loaded again.
func TestLoadJoins(t *testing.T) {
	for _, n := range []int{1, 100, hub.HeldMessages + 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t, nil)
			h := newHub(t, r, spaces(push.History{Size: 2 * hub.HeldMessages}), nil)
			publishN(t, h, "stream:x", 0, 5)
			first := true // owned by the goroutine that loads
			r.set(func(r *rig) {
				r.loaded = func(_ string, found broker.History) broker.History {
					if first { // what was read is out of date by now
						first = false
						publishN(t, h, "stream:x", 5, n)
						publishN(t, h, "stream:other", 0, 1)
						testwait.True(t, "it was delivered", func() bool { return h.Applied("stream:x") >= uint64(n)+5 })
					}
					return found
				}
			})
			found, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{Limit: -1})
			must(t, err)
			var got []string
			for _, e := range found.Entries {
				got = append(got, string(e.Data))
			}
			if !slices.Equal(got, numbers(0, n+5)) {
				t.Errorf("%d entries of %d", len(got), n+5)
			}
			if again := r.loads.Load() > 1; again != (n > hub.HeldMessages) {
				t.Errorf("it was loaded %d times", r.loads.Load())
			}
		})
	}
}

// Publications that the follower is told to have missed while a channel was being loaded are not in what was read: it is read again.
func TestLoadAcrossGap(t *testing.T) {
	for _, name := range []string{"stream:x", "table:x"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			h := newHub(t, r, spaces(push.History{Size: 100}), nil)
			first := true // owned by the goroutine that loads
			r.set(func(r *rig) {
				r.loaded = func(_ string, found broker.History) broker.History {
					if first {
						first = false
						r.lose()
						at := publish(t, h, name, push.Publication{Key: "lost", Data: []byte("lost")})
						testwait.True(t, "the gap was told", func() bool { return h.Applied(name) >= at.Offset })
						publish(t, h, name, push.Publication{Key: "kept", Data: []byte("kept")})
					}
					return found
				}
			})
			found, err := h.History(testwait.Context(t), name, hub.HistoryRequest{Limit: -1})
			must(t, err)
			if len(found.Entries) != 2 {
				t.Errorf("%d entries", len(found.Entries))
			}
		})
	}
}

// A gap on a table that is in use: its rows are loaded again, and the clients have them in the end.
func TestGapInUse(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 100}), nil)
	stream, table := newCarrier(t, open, false), newCarrier(t, open, false)
	ss := stream.connect(h, client("a"))
	subscribe(t, ss, hub.SubscribeRequest{Channel: "stream:x"})
	subscribe(t, table.connect(h, client("b")), hub.SubscribeRequest{Channel: "table:x"})
	for i := range 3 {
		if i == 1 {
			r.lose()
		}
		at := publish(t, h, "table:x", push.Publication{Key: fmt.Sprint(i), Data: fmt.Append(nil, i)})
		testwait.True(t, "it was delivered", func() bool { return h.Applied("table:x") >= at.Offset })
	}
	testwait.True(t, "the rows are there", func() bool { return len(table.taken()) == 3 })
	r.lose()
	publish(t, h, "stream:x", push.Publication{})
	testwait.True(t, "the stream is ended", func() bool { return !ss.Subscribes("stream:x") })
	if got := stream.taken(); len(got) != 1 || got[0].kind != "end" {
		t.Errorf("the stream got %v", got)
	}
}

// If a broker answers for another epoch than the followed one, it is asked again when the follower knows of that epoch; if it never
// does, loading ends.
func TestLoadOfAnotherLife(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{LoadTimeout: 50 * time.Millisecond})
	publishN(t, h, "stream:x", 1, 2)
	r.set(func(r *rig) {
		r.loaded = func(_ string, found broker.History) broker.History {
			found.Epoch = "another"
			return found
		}
	})
	if _, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{}); !errors.Is(err, push.ErrInternal) {
		t.Errorf("got %v", err)
	}

	patient := newHub(t, r, spaces(push.History{Size: 10}), nil)
	loads := r.loads.Load()
	begun := make(chan struct{}, 100)
	r.set(func(r *rig) {
		r.loaded = func(_ string, found broker.History) broker.History {
			begun <- struct{}{}
			if r.loads.Load() == loads+1 {
				found.Epoch = "another"
			}
			return found
		}
	})
	answered := make(chan error, 1)
	go func() {
		_, err := patient.History(testwait.Context(t), "stream:x", hub.HistoryRequest{})
		answered <- err
	}()
	testwait.Receive(t, begun)
	r.renew()
	if err := testwait.Receive(t, answered); err != nil && !errors.Is(err, push.ErrInternal) {
		t.Errorf("got %v", err)
	}
	settle(t, patient, "stream:x")
}

// At a new epoch all subscriptions end, positions of the old one are void, and catchUp does not wait for offsets acknowledged there.
func TestNewLife(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	at := publishN(t, h, "stream:x", 1, 100)
	testwait.True(t, "all have come", func() bool { return len(c.taken()) == 100 })
	r.renew()
	testwait.True(t, "the subscription is ended", func() bool { return !s.Subscribes("stream:x") })
	h.Acknowledged("stream:x", at) // the answer to a publish of the old epoch comes late
	got := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: &at})
	if got.Recovered || got.Position.Epoch == at.Epoch {
		t.Errorf("after a new life began: %+v", got)
	}
	publishN(t, h, "stream:x", 101, 1)
	testwait.True(t, "the new life is served", func() bool { return len(c.taken()) == 102 })
}

// A client that publishes and then reads finds its publication, also if the broker delivers late.
func TestCatchUp(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{LoadTimeout: time.Minute})
	settle(t, h, "stream:x")
	release := r.hold()
	publishN(t, h, "stream:x", 1, 1)
	ctx, cancel := context.WithTimeout(testwait.Context(t), 20*time.Millisecond)
	defer cancel()
	_, err := h.History(ctx, "stream:x", hub.HistoryRequest{Limit: -1})
	if !errors.Is(err, push.ErrInternal) || !strings.Contains(err.Error(), "in time") {
		t.Fatalf("before it was delivered: %v", err)
	}
	type answer struct {
		found hub.History
		err   error
	}
	answers := make(chan answer, 1)
	subscribed := make(chan hub.Subscribed, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		found, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{Limit: -1})
		answers <- answer{found, err}
	})
	s := newCarrier(t, open, false).connect(h, client("a"))
	wg.Go(func() {
		err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "value:x"}, func(a hub.Subscribed) error {
			subscribed <- a
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	at := publish(t, h, "value:x", push.Publication{Data: []byte("2")})
	testwait.True(t, "both wait", func() bool { return h.Holds("stream:x") == 1 && h.Holds("value:x") == 1 })
	release()
	testwait.Return(t, wg.Wait)
	if a := testwait.Receive(t, answers); a.err != nil || len(a.found.Entries) != 1 {
		t.Errorf("history: %+v", a)
	}
	if a := testwait.Receive(t, subscribed); a.Position.Offset > at.Offset {
		t.Errorf("subscribed: %+v", a)
	}
}

// A broker that never delivers is not waited for longer than loading may take.
func TestCatchUpBounded(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{LoadTimeout: 20 * time.Millisecond})
	r.hold()
	publishN(t, h, "stream:x", 1, 1)
	if _, err := h.History(context.Background(), "stream:x", hub.HistoryRequest{}); !errors.Is(err, push.ErrInternal) {
		t.Errorf("got %v", err)
	}
}
