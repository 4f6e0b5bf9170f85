package hub_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/presence"
)

// Presence covers all nodes: a client that subscribes appears, and a client that leaves, in whatever way, disappears.
func TestPresence(t *testing.T) {
	b := newBroker(t)
	hubs := []*hub.Hub{newHub(t, b, spaces(push.History{Size: 10}), nil), newHub(t, b, spaces(push.History{Size: 10}), nil)}
	var sessions []*hub.Session
	for i, name := range []string{"a", "b", "c"} {
		o := hub.SessionOptions{Info: push.ClientInfo{Client: name, User: "u" + name, ConnInfo: []byte(`{"n":1}`)}}
		if name == "c" {
			o.Info.User = "ua"
		}
		s := newCarrier(t, open, false).connect(hubs[i%2], o)
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", ChanInfo: []byte(`"` + name + `"`)})
		sessions = append(sessions, s)
	}
	subscribe(t, sessions[0], hub.SubscribeRequest{Channel: "stream:xy"})
	who := func() (clients []string, users int) {
		t.Helper()
		for _, h := range hubs {
			present, err := h.Presence(testwait.Context(t), "stream:x")
			must(t, err)
			clients = clients[:0]
			for name, info := range present {
				clients = append(clients, name)
				if info.Client != name || string(info.ConnInfo) != `{"n":1}` || string(info.ChanInfo) != `"`+name+`"` {
					t.Errorf("%s is shown as %+v", name, info)
				}
			}
			n, u, err := h.PresenceStats(testwait.Context(t), "stream:x")
			must(t, err)
			if n != len(clients) {
				t.Errorf("%d clients counted, %d shown", n, len(clients))
			}
			users = u
		}
		slices.Sort(clients)
		return clients, users
	}
	expect := func(users int, clients ...string) {
		t.Helper()
		if got, n := who(); !slices.Equal(got, clients) || n != users {
			t.Errorf("present: %v of %d users, want %v of %d", got, n, clients, users)
		}
	}
	expect(2, "a", "b", "c")
	sessions[0].Unsubscribe("stream:x")
	expect(2, "b", "c")
	for _, h := range hubs {
		h.Renew(testwait.Context(t)) // must not bring back a client
	}
	expect(2, "b", "c")
	sessions[1].Close()
	expect(1, "c")
	must(t, hubs[0].Unsubscribe(testwait.Context(t), hub.Target{Client: "c"}, "stream:x", push.UnsubscribeServer))
	testwait.True(t, "nobody is present", func() bool {
		present, err := hubs[1].Presence(testwait.Context(t), "stream:x")
		must(t, err)
		return len(present) == 0
	})
	expect(0)
}

func TestPresenceUnavailable(t *testing.T) {
	r := newRig(t, nil)
	ns := append(spaces(push.History{Size: 10}), hub.Namespace{Namespace: broker.Namespace{Name: "none"}})
	h := newHub(t, r, ns, nil)
	for name, want := range map[string]error{"none:x": push.ErrNotAvailable, "unknown:x": push.ErrUnknownChannel} {
		if _, err := h.Presence(testwait.Context(t), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := h.PresenceStats(testwait.Context(t), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, r.side.Close())
	if _, err := h.Presence(testwait.Context(t), "stream:x"); !errors.Is(err, push.ErrInternal) {
		t.Errorf("without a broker: %v", err)
	}
	if _, err := h.OtherNodes(testwait.Context(t)); err == nil {
		t.Error("the other nodes are listed without the broker")
	}
	if _, err := h.Nodes(testwait.Context(t)); !errors.Is(err, push.ErrInternal) {
		t.Errorf("without a broker: %v", err)
	}
	// Presence that cannot be told is no reason not to serve.
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	s.Unsubscribe("stream:x")
}

// A lease that is renewed while its subscription ends does not stay behind.
func TestPresenceNotBroughtBack(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	ended := false // owned by the renewing goroutine, which is the test's
	r.set(func(r *rig) {
		r.onLease = func(_ context.Context, key string) error {
			if !ended && key != "node/"+h.ID() {
				ended = true
				s.Unsubscribe("stream:x") // right before the lease is put
			}
			return nil
		}
	})
	h.Renew(testwait.Context(t))
	present, err := h.Presence(testwait.Context(t), "stream:x")
	must(t, err)
	if !ended || len(present) != 0 {
		t.Errorf("ended %t, present: %v", ended, present)
	}
}

func TestNodes(t *testing.T) {
	b := newBroker(t)
	one := newHub(t, b, spaces(push.History{Size: 10}), &hub.Options{Name: "one", Version: "v1"})
	two := newHub(t, b, spaces(push.History{Size: 10}), nil)
	s := newCarrier(t, open, false).connect(two, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	two.Renew(testwait.Context(t))
	nodes, err := one.Nodes(testwait.Context(t))
	must(t, err)
	if len(nodes) != 2 || nodes[0].ID != one.ID() || nodes[0].Name != "one" || nodes[0].Version != "v1" || nodes[0].Clients != 0 {
		t.Fatalf("nodes: %+v", nodes)
	}
	want := presence.Node{ID: two.ID(), Name: two.ID(), Clients: 1, Users: 1, Subs: 2, Channels: 2}
	if nodes[1].Uptime = 0; nodes[1] != want {
		t.Errorf("the other node: %+v, want %+v", nodes[1], want)
	}
	if others, err := one.OtherNodes(testwait.Context(t)); err != nil || len(others) != 1 || others[0].ID != two.ID() {
		t.Errorf("the other nodes: %v, %v", others, err)
	}
	must(t, two.Close())
	if nodes, err = one.Nodes(testwait.Context(t)); err != nil || len(nodes) != 1 {
		t.Errorf("after it was closed: %v, %v", nodes, err)
	}
}
