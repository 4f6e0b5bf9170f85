package hub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
)

// Close ends in the midst of everything: publishers, clients that come and go, stall and are stuck, channels that load, new lives.
func TestCloseWhileBusy(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t, nil)
			h, err := hub.New(testwait.Context(t), r, spaces(push.History{Size: 100}), &hub.Options{Linger: -1, Workers: 2})
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var wg sync.WaitGroup
			for i := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, i))
				wg.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						p := push.Publication{Key: fmt.Sprint(rng.IntN(100)), Data: fmt.Append(nil, n)}
						_, _ = h.Publish(ctx, []string{"stream:x", "table:x", "value:x"}[rng.IntN(3)], p, "")
						_, _ = h.History(ctx, fmt.Sprintf("stream:%d", rng.IntN(100)), hub.HistoryRequest{Limit: 5})
						h.Sweep(time.Now())
					}
				})
			}
			var carriers []*carrier
			for i := range uint64(10) {
				c := newCarrier(t, dribble(rand.New(rand.NewPCG(seed, 100+i))), true)
				s := c.connect(h, client(fmt.Sprint(i)))
				carriers = append(carriers, c)
				wg.Go(func() {
					for n := uint64(0); ctx.Err() == nil; n++ {
						name := []string{"stream:x", "table:x", "value:x", fmt.Sprintf("stream:%d", n%100)}[(i+n)%4]
						_ = s.Subscribe(ctx, hub.SubscribeRequest{Channel: name}, func(hub.Subscribed) error { return nil })
						if n%3 == 0 {
							s.Unsubscribe(name)
						}
					}
				})
			}
			wg.Go(func() {
				for range 10 {
					_ = h.Unsubscribe(ctx, hub.Target{User: "user of 1"}, "", push.UnsubscribeServer)
					r.lose()
					r.renew()
				}
			})
			testwait.True(t, "all is under way", func() bool { return h.Stats().Published > 500 })
			var closing sync.WaitGroup
			for range 3 {
				closing.Go(func() {
					if err := h.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			testwait.Return(t, closing.Wait)
			for _, c := range carriers {
				if len(c.disconnects()) != 1 {
					t.Errorf("a client was disconnected by %v", c.disconnects())
				}
			}
			if s := h.Stats(); s.Sessions != 0 || s.Subscriptions != 0 {
				t.Errorf("left: %+v", s)
			}
			cancel()
			testwait.Return(t, wg.Wait)
		})
	}
}

func TestAfterClose(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	settle(t, h, "stream:loaded")
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	must(t, h.Close())
	if got := c.disconnects(); len(got) != 1 || got[0] != push.DisconnectShutdown {
		t.Errorf("disconnected by %v", got)
	}
	ctx := testwait.Context(t)
	for name, err := range map[string]error{
		"connect":   second(h.Connect(c, text{}, client("b"))),
		"subscribe": s.Subscribe(ctx, hub.SubscribeRequest{Channel: "stream:y"}, unwanted(t)),
		"history":   second(h.History(ctx, "stream:loaded", hub.HistoryRequest{})),
		"load":      second(h.History(ctx, "stream:new", hub.HistoryRequest{})),
		"ready":     h.Ready(ctx),
	} {
		if !errors.Is(err, push.ErrInternal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Flush()
	s.Close()
	s.Disconnect(push.DisconnectShutdown)
	if s.Unsubscribe("stream:x") || s.Subscribes("stream:x") {
		t.Error("it is still subscribed")
	}
}

func second[T any](_ T, err error) error { return err }

// A broker that does not answer holds Close up for a bounded time.
func TestCloseWithoutBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		h := newHub(t, r, spaces(push.History{Size: 10}), nil)
		for i := range 20 {
			s := newCarrier(t, open, false).connect(h, client(fmt.Sprint(i)))
			subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
			subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
		}
		r.set(func(r *rig) {
			r.onLease = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		})
		begun := time.Now()
		must(t, h.Close())
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// What is lost while the hub is closing need not be loaded again.
func TestGapWhileClosing(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	settle(t, h, "table:x")
	release := r.hold()
	r.lose()
	publishN(t, h, "table:x", 1, 1)
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	testwait.True(t, "it is closing", func() bool {
		_, err := h.History(testwait.Context(t), "value:x", hub.HistoryRequest{})
		return err != nil
	})
	release()
	must(t, testwait.Receive(t, closed))
}

// A hub that cannot be made leaves nothing behind, and says which namespace it is about.
func TestNewFails(t *testing.T) {
	durable := hub.Namespace{Namespace: broker.Namespace{Name: "keep", Durable: true}}
	twice := spaces(push.History{})
	tests := []struct {
		name       string
		namespaces []hub.Namespace
		prepare    func(*rig)
		want       string
	}{
		{"refused by the broker", append(spaces(push.History{}), durable), func(*rig) {}, `hub: namespace "keep"`},
		{"twice", append(twice, twice[0]), func(*rig) {}, `"stream": configured twice`},
		{"reserved", []hub.Namespace{{Namespace: broker.Namespace{Name: "@sluice"}}}, func(*rig) {}, "configured twice"},
		{"broker closed", spaces(push.History{}), func(r *rig) { must(r.t, r.current().Close()) }, "hub: namespace"},
		{"no leases", spaces(push.History{}), func(r *rig) {
			r.onLease = func(context.Context, string) error { return errors.New("no") }
		}, "hub: announce the node"},
		{"no control messages", spaces(push.History{}), func(r *rig) {
			r.deaf = true
		}, "hub: listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			tt.prepare(r)
			_, err := hub.New(testwait.Context(t), r, tt.namespaces, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// An identity is one client's; when that has gone, it is free again.
func TestConnectTwice(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), nil)
	s := newCarrier(t, open, false).connect(h, client("a"))
	if _, err := h.Connect(newCarrier(t, open, false), text{}, client("a")); !errors.Is(err, push.ErrBadRequest) {
		t.Errorf("got %v", err)
	}
	if got := s.Info(); got.Client != "a" || got.User != "user of a" {
		t.Errorf("info %+v", got)
	}
	s.Close()
	newCarrier(t, open, false).connect(h, client("a"))
}
