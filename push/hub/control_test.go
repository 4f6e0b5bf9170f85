package hub_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// crowd is four clients on two hubs: a1 and a2 of user a, b1 of user b, and one that is anonymous.
type crowd struct {
	hubs     []*hub.Hub
	carriers map[string]*carrier
}

func newCrowd(t *testing.T) *crowd {
	b := newBroker(t)
	c := &crowd{carriers: map[string]*carrier{}}
	for range 2 {
		c.hubs = append(c.hubs, newHub(t, b, spaces(push.History{Size: 10}), nil))
	}
	for i, who := range []push.ClientInfo{{User: "a", Client: "a1"}, {User: "a", Client: "a2"}, {User: "b", Client: "b1"}, {Client: "x1"}} {
		k := newCarrier(t, open, false)
		s := k.connect(c.hubs[i%2], hub.SessionOptions{Info: who})
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
		subscribe(t, s, hub.SubscribeRequest{Channel: "table:x"})
		c.carriers[who.Client] = k
	}
	return c
}

func TestControl(t *testing.T) {
	all := []string{"a1", "a2", "b1", "x1"}
	tests := []struct {
		name   string
		target hub.Target
		except []string
		want   []string
	}{
		{"user", hub.Target{User: "a"}, nil, []string{"a1", "a2"}},
		{"client", hub.Target{Client: "a2"}, nil, []string{"a2"}},
		{"anonymous client", hub.Target{Client: "x1"}, nil, []string{"x1"}},
		{"both", hub.Target{User: "b", Client: "b1"}, nil, []string{"b1"}},
		{"both that do not fit", hub.Target{User: "a", Client: "b1"}, nil, nil},
		{"except", hub.Target{User: "a"}, []string{"a1", "b1"}, []string{"a2"}},
		{"nobody", hub.Target{User: "c"}, nil, nil},
	}
	for _, tt := range tests {
		t.Run("disconnect/"+tt.name, func(t *testing.T) {
			c := newCrowd(t)
			d := push.Disconnect{Code: 3503, Reason: "go"}
			must(t, c.hubs[0].Disconnect(testwait.Context(t), tt.target, d, tt.except))
			c.told(t)
			for _, name := range all {
				want := []push.Disconnect{d}
				if !slices.Contains(tt.want, name) {
					want = nil
				}
				if got := c.carriers[name].disconnects(); !slices.Equal(got, want) {
					t.Errorf("%s: disconnected by %v, want %v", name, got, want)
				}
			}
		})
		if tt.except != nil {
			continue
		}
		for _, name := range []string{"stream:x", ""} {
			t.Run("unsubscribe/"+tt.name+"/"+name, func(t *testing.T) {
				c := newCrowd(t)
				must(t, c.hubs[0].Unsubscribe(testwait.Context(t), tt.target, name, push.Unsubscribe{Code: 2000, Reason: "go"}))
				c.told(t)
				for _, who := range all {
					s := c.carriers[who].session.Load()
					hit := slices.Contains(tt.want, who)
					if s.Subscribes("stream:x") == hit || s.Subscribes("table:x") == (hit && name == "") {
						t.Errorf("%s: subscribed to the stream %t, to the table %t", who, s.Subscribes("stream:x"), s.Subscribes("table:x"))
					}
					for _, f := range c.carriers[who].taken() {
						if f.kind != "end" || f.offset != 2000 || !hit {
							t.Errorf("%s got %v", who, f)
						}
					}
				}
			})
		}
	}
}

// told waits until both hubs have done what they were told: messages are handled one after the other.
func (c *crowd) told(t *testing.T) {
	t.Helper()
	for i, h := range c.hubs {
		k := newCarrier(t, open, false)
		k.connect(h, hub.SessionOptions{Info: push.ClientInfo{Client: fmt.Sprint("last", i)}})
		must(t, c.hubs[0].Disconnect(testwait.Context(t), hub.Target{Client: fmt.Sprint("last", i)}, push.DisconnectShutdown, nil))
		testwait.True(t, "the hub was told", func() bool { return len(k.disconnects()) == 1 })
	}
}

func TestControlRefused(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	if err := h.Disconnect(testwait.Context(t), hub.Target{}, push.DisconnectShutdown, nil); !errors.Is(err, push.ErrBadRequest) {
		t.Errorf("disconnect of nobody in particular: %v", err)
	}
	if err := h.Unsubscribe(testwait.Context(t), hub.Target{}, "stream:x", push.UnsubscribeServer); !errors.Is(err, push.ErrBadRequest) {
		t.Errorf("unsubscribe of nobody in particular: %v", err)
	}
	for _, nonsense := range []string{"", "{", `{"op":"dance","user":"a"}`, `{"op":7}`} {
		must(t, r.Tell(testwait.Context(t), h.ID(), []byte(nonsense)))
	}
	k := newCarrier(t, open, false)
	k.connect(h, client("a"))
	must(t, h.Disconnect(testwait.Context(t), hub.Target{Client: "a"}, push.DisconnectShutdown, nil))
	testwait.True(t, "the hub still listens", func() bool { return len(k.disconnects()) == 1 })
	must(t, r.side.Close())
	if err := h.Disconnect(testwait.Context(t), hub.Target{Client: "a"}, push.DisconnectShutdown, nil); !errors.Is(err, push.ErrInternal) {
		t.Errorf("without a broker: %v", err)
	}
}

// A client whose answer is stuck holds its session; what is said to others, and to itself, gets past it.
func TestControlPassesStuckAnswers(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	stuck := newCarrier(t, open, false)
	s := stuck.connect(h, client("stuck"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	answering, gate, answered := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx := testwait.Context(t)
	go func() {
		answered <- s.Subscribe(ctx, hub.SubscribeRequest{Channel: "stream:x"}, func(hub.Subscribed) error {
			close(answering)
			testwait.Hold(t, gate)
			return nil
		})
	}()
	testwait.Receive(t, answering)
	other := newCarrier(t, open, false)
	so := other.connect(h, client("other"))
	subscribe(t, so, hub.SubscribeRequest{Channel: "stream:y"})
	for _, c := range []string{"stuck", "other"} {
		must(t, h.Unsubscribe(ctx, hub.Target{Client: c}, "stream:y", push.UnsubscribeServer))
		must(t, h.Disconnect(ctx, hub.Target{Client: c}, push.DisconnectForceReconnect, nil))
	}
	testwait.True(t, "all were told", func() bool {
		return len(stuck.disconnects()) == 1 && len(other.disconnects()) == 1 && !so.Subscribes("stream:y")
	})
	h.Renew(ctx)
	must(t, h.Ready(ctx))
	close(gate)
	must(t, testwait.Receive(t, answered))
	testwait.True(t, "the subscription is ended", func() bool { return !s.Subscribes("stream:y") })
}

func TestChannels(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	for i, names := range [][]string{{"stream:a", "stream:ab"}, {"stream:ab", "table:b"}} {
		s := newCarrier(t, open, false).connect(h, client(fmt.Sprint(i)))
		for _, name := range names {
			subscribe(t, s, hub.SubscribeRequest{Channel: name})
		}
	}
	settle(t, h, "stream:unused")
	must(t, h.Ready(testwait.Context(t)))
	tests := []struct {
		pattern string
		want    map[string]int
	}{
		{"", map[string]int{"stream:a": 1, "stream:ab": 2, "table:b": 1}},
		{"*", map[string]int{"stream:a": 1, "stream:ab": 2, "table:b": 1}},
		{"stream:*", map[string]int{"stream:a": 1, "stream:ab": 2}},
		{"*b", map[string]int{"stream:ab": 2, "table:b": 1}},
		{"s*a*", map[string]int{"stream:a": 1, "stream:ab": 2}},
		{"stream:a", map[string]int{"stream:a": 1}},
		{"stream", map[string]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			if got := h.Channels(tt.pattern); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if s := h.Stats(); s.Sessions != 2 || s.Subscriptions != 4 || s.Channels != 3 {
		t.Errorf("%+v", s)
	}
}

// Ready shows that a publication comes through, leaves nothing behind, and fails when it does not come.
func TestReady(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	for range 3 {
		must(t, h.Ready(testwait.Context(t)))
	}
	if s := h.Stats(); s.Sessions != 0 || s.Channels != 0 {
		t.Errorf("left behind: %+v", s)
	}
	r.hold()
	ctx, cancel := context.WithTimeout(testwait.Context(t), 20*time.Millisecond)
	defer cancel()
	if err := h.Ready(ctx); !errors.Is(err, push.ErrInternal) {
		t.Errorf("without deliveries: %v", err)
	}
}

// Clients cannot reach the channel by which hubs check themselves: a publication there would stay, and no configuration grants a right to it.
func TestOwnNamespaceIsRefused(t *testing.T) {
	const name = "@sluice:ready"
	ctx, h := testwait.Context(t), newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	must(t, h.Ready(ctx))
	s := newCarrier(t, open, false).connect(h, hub.SessionOptions{Info: push.ClientInfo{Client: "c"}})
	for what, try := range map[string]func() error{
		"publish":  func() error { _, err := h.Publish(ctx, name, push.Publication{Data: []byte("1")}, ""); return err },
		"clear":    func() error { _, err := h.Publish(ctx, name, push.Publication{Op: push.Clear}, ""); return err },
		"history":  func() error { _, err := h.History(ctx, name, hub.HistoryRequest{Limit: 1}); return err },
		"presence": func() error { _, err := h.Presence(ctx, name); return err },
		"stats":    func() error { _, _, err := h.PresenceStats(ctx, name); return err },
		"subscribe": func() error {
			return s.Subscribe(ctx, hub.SubscribeRequest{Channel: name}, func(hub.Subscribed) error { return nil })
		},
		"table": func() error {
			return s.Subscribe(ctx, hub.SubscribeRequest{Channel: name, Table: true}, func(hub.Subscribed) error { return nil })
		},
	} {
		if err := try(); !errors.Is(err, push.ErrUnknownChannel) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, h.Ready(ctx))
}
