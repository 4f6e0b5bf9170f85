package hub_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// joinSpaces are the namespaces of spaces, with join and leave pushes.
func joinSpaces() []hub.Namespace {
	ns := spaces(push.History{Size: 10})
	for i := range ns {
		ns[i].JoinLeave = true
	}
	return ns
}

// events returns the joins and leaves among the frames that a carrier took, such as "join b", and fails if one has a position.
func (c *carrier) events() []string {
	c.t.Helper()
	var out []string
	for _, f := range c.taken() {
		if f.kind != "join" && f.kind != "leave" {
			continue
		}
		if f.at != (push.Position{}) {
			c.t.Errorf("%s has the position %v", f.kind, f.at)
		}
		out = append(out, f.kind+" "+f.key)
	}
	return out
}

// last returns the newest frame that a carrier took.
func (c *carrier) last() frame {
	frames := c.taken()
	return frames[len(frames)-1]
}

func (c *carrier) awaitEvents(want ...string) {
	c.t.Helper()
	testwait.True(c.t, fmt.Sprintf("%v", want), func() bool {
		got := c.events()
		if len(got) > len(want) {
			c.t.Fatalf("events %v, want %v", got, want)
		}
		return slices.Equal(got, want)
	})
}

// A subscription that asks for joins and leaves gets them from all nodes, its own first, in the order in which they happened, whatever ends a
// subscription. Others get none.
func TestJoinLeave(t *testing.T) {
	for _, mode := range []string{"stream", "value", "table"} {
		for _, bandwidth := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s %d", mode, bandwidth), func(t *testing.T) {
				name := mode + ":x"
				b := newBroker(t)
				one, two := newHub(t, b, joinSpaces(), nil), newHub(t, b, joinSpaces(), nil)
				near, far, silent := newCarrier(t, open, false), newCarrier(t, open, false), newCarrier(t, open, false)
				o := client("near")
				o.Bandwidth = bandwidth
				s := near.connect(one, o)
				subscribe(t, s, hub.SubscribeRequest{Channel: name, JoinLeave: true})
				subscribe(t, far.connect(two, client("far")), hub.SubscribeRequest{Channel: name, JoinLeave: true})
				subscribe(t, silent.connect(one, client("silent")), hub.SubscribeRequest{Channel: name})
				leaver := newCarrier(t, open, false).connect(two, client("c"))
				subscribe(t, leaver, hub.SubscribeRequest{Channel: name, ChanInfo: []byte(`"info"`)})
				subscribe(t, leaver, hub.SubscribeRequest{Channel: mode + ":y", JoinLeave: true}) // of no concern to the others
				leaver.Unsubscribe(name)
				subscribe(t, leaver, hub.SubscribeRequest{Channel: name})
				leaver.Close()
				must(t, one.Unsubscribe(testwait.Context(t), hub.Target{Client: "silent"}, "", push.UnsubscribeServer))
				far.awaitEvents("join far", "join silent", "join c", "leave c", "join c", "leave c", "leave silent")
				near.awaitEvents("join near", "join far", "join silent", "join c", "leave c", "join c", "leave c", "leave silent")
				if got := silent.events(); len(got) > 0 {
					t.Errorf("a client that did not ask got %v", got)
				}
				var infos []string
				for _, f := range near.taken() {
					if f.key == "c" && f.kind == "join" {
						infos = append(infos, f.data)
					}
				}
				if want := []string{`"info"`, ""}; !slices.Equal(infos, want) {
					t.Errorf("joined with %q, want %q", infos, want)
				}
				publish(t, two, name, push.Publication{Data: []byte("1"), Key: "k"})
				testwait.True(t, "publications come as well", func() bool { return near.last().kind == "put" })
				s.Unsubscribe(name)
				far.awaitEvents("join far", "join silent", "join c", "leave c", "join c", "leave c", "leave silent", "leave near")
				if got := len(near.events()); got != 8 {
					t.Errorf("%d events after the subscription has ended, want 8", got)
				}
			})
		}
	}
}

// All subscriptions of a client end on request, though each has a second one for its joins, and begin again.
func TestJoinsEndWithSubscription(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), &hub.Options{SubscriptionsPerSession: 2})
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	for round := range 3 {
		for _, name := range []string{"stream:x", "stream:y"} {
			subscribe(t, s, hub.SubscribeRequest{Channel: name, JoinLeave: true})
		}
		if err := s.Subscribe(t.Context(), hub.SubscribeRequest{Channel: "stream:z"}, func(hub.Subscribed) error { return nil }); !errors.Is(err, push.ErrLimitExceeded) {
			t.Fatalf("a third subscription: %v", err)
		}
		must(t, h.Unsubscribe(testwait.Context(t), hub.Target{Client: "a"}, "", push.UnsubscribeServer))
		testwait.True(t, "both have ended", func() bool {
			ends := slices.DeleteFunc(slices.Clone(c.taken()), func(f frame) bool { return f.kind != "end" })
			for _, f := range ends {
				if f.offset != uint64(push.UnsubscribeServer.Code) || !strings.HasPrefix(f.channel, "stream:") {
					t.Fatalf("%s ended with %d", f.channel, f.offset)
				}
			}
			return len(ends) == 2*(round+1) && !s.Subscribes("stream:x") && !s.Subscribes("stream:y")
		})
	}
}

// The streams of joins and leaves are out of the clients' reach, in no list, and in no figure.
func TestJoinsHidden(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), nil)
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true})
	none := func(hub.Subscribed) error { return nil }
	if err := s.Subscribe(t.Context(), hub.SubscribeRequest{Channel: "@joins:stream:x"}, none); !errors.Is(err, push.ErrUnknownChannel) {
		t.Errorf("subscribing: %v", err)
	}
	if _, err := h.Publish(t.Context(), "@joins:stream:x", push.Publication{Data: []byte("1")}, ""); !errors.Is(err, push.ErrUnknownChannel) {
		t.Errorf("publishing: %v", err)
	}
	if got := h.Channels(""); len(got) != 1 || got["stream:x"] != 1 {
		t.Errorf("channels: %v", got)
	}
	if got := h.Stats(); got.Subscriptions != 1 || got.Published != 0 {
		t.Errorf("%d subscriptions, %d published", got.Subscriptions, got.Published)
	}
	if got := h.Node(); got.Subs != 1 || got.Channels != 1 {
		t.Errorf("%+v", got)
	}
}

// A client that was not subscribed after all is not announced, and nothing of it stays.
func TestJoinsOfFailedSubscription(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), nil)
	watcher := newCarrier(t, open, false)
	subscribe(t, watcher.connect(h, client("w")), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true})
	s := newCarrier(t, open, false).connect(h, client("a"))
	gone := errors.New("gone")
	err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true}, func(hub.Subscribed) error { return gone })
	if !errors.Is(err, gone) {
		t.Fatalf("subscribed: %v", err)
	}
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	watcher.awaitEvents("join w", "join a")
}

// When the broker has lost the stream of joins, the client is told to subscribe again: it has to read the presence anew.
func TestJoinsLost(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), nil)
	c := newCarrier(t, open, false)
	subscribe(t, c.connect(h, client("a")), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true})
	c.awaitEvents("join a")
	h.ResetJoins()
	testwait.True(t, "the subscription ends", func() bool { return c.last().kind == "end" })
	if last := c.last(); last.channel != "stream:x" || last.offset != uint64(push.UnsubscribeInsufficientState.Code) {
		t.Errorf("%s ended with %d", last.channel, last.offset)
	}
}

// A client that is too slow for the joins of a channel misses the oldest, and keeps its subscription.
func TestJoinsOfSlowClient(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), nil)
	c := newCarrier(t, open, false)
	subscribe(t, c.connect(h, client("slow")), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true})
	c.awaitEvents("join slow")
	c.shut()
	s := newCarrier(t, open, false).connect(h, client("b"))
	const rounds, kept = 150, 256
	for range rounds {
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
		s.Unsubscribe("stream:x")
	}
	testwait.True(t, "the events have arrived", func() bool { return h.Applied("@joins:stream:x") >= 1+2*rounds })
	for range 2 {
		h.Sweep(time.Now())
	}
	c.open(open)
	testwait.True(t, "the newest come", func() bool { return len(c.events()) >= 1+kept })
	if got := c.events(); len(got) != 1+kept || got[len(got)-1] != "leave b" {
		t.Errorf("%d events, the last is %s", len(got), got[len(got)-1])
	}
	if ends := c.disconnects(); len(ends) > 0 || c.last().kind == "end" {
		t.Errorf("the client was ended: %v", ends)
	}
}

// Nothing holds the channels any more when the subscription, its connection, or the subscription's attempt has ended.
func TestJoinsReleased(t *testing.T) {
	h := newHub(t, newBroker(t), joinSpaces(), nil)
	s := newCarrier(t, open, false).connect(h, client("a"))
	request := hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true}
	for name, end := range map[string]func(){
		"unsubscribed": func() { s.Unsubscribe("stream:x") },
		"ended":        func() { s.End("stream:x", push.UnsubscribeServer) },
		"failed": func() {
			s.Unsubscribe("stream:x")
			_ = s.Subscribe(testwait.Context(t), request, func(hub.Subscribed) error { return errors.New("gone") })
		},
		"twice": func() {
			_ = s.Subscribe(testwait.Context(t), request, func(hub.Subscribed) error { return nil })
			s.Unsubscribe("stream:x")
		},
	} {
		subscribe(t, s, request)
		if a, b := h.Holds("stream:x"), h.Holds("@joins:stream:x"); a != 1 || b != 1 {
			t.Fatalf("%s: subscribed, %d and %d holds", name, a, b)
		}
		end()
		testwait.True(t, name+": released", func() bool { return h.Holds("stream:x") <= 0 && h.Holds("@joins:stream:x") <= 0 })
	}
	subscribe(t, s, request)
	s.Close()
	if a, b := h.Holds("stream:x"), h.Holds("@joins:stream:x"); a > 0 || b > 0 {
		t.Errorf("closed: %d and %d holds", a, b)
	}
}

// Subscriptions with joins begin and end at random, also by the server and together with their sessions, and each client is seen to join and leave
// in turn.
func TestJoinsAlternate(t *testing.T) {
	b := newBroker(t)
	one, two := newHub(t, b, joinSpaces(), nil), newHub(t, b, joinSpaces(), nil)
	watcher := newCarrier(t, dribble(rand.New(rand.NewPCG(1, 2))), true)
	subscribe(t, watcher.connect(one, client("watcher")), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: true})
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			o := client(fmt.Sprint(i))
			s := newCarrier(t, open, false).connect(two, o)
			for range 25 {
				_ = s.Subscribe(t.Context(), hub.SubscribeRequest{Channel: "stream:x", JoinLeave: rng.IntN(2) == 0}, func(hub.Subscribed) error { return nil })
				if rng.IntN(2) == 0 {
					s.End("stream:x", push.UnsubscribeServer)
				} else {
					s.Unsubscribe("stream:x")
				}
			}
			s.Close()
		}()
	}
	for range 4 {
		testwait.Receive(t, done)
	}
	testwait.True(t, "all have left", func() bool {
		present := map[string]bool{}
		joins, leaves := 0, 0
		for _, e := range watcher.events()[1:] {
			kind, who, _ := strings.Cut(e, " ")
			if joins++; kind == "leave" {
				joins--
				leaves++
			}
			present[who] = kind == "join"
		}
		for _, is := range present {
			if is {
				return false
			}
		}
		return joins == leaves && len(present) == 4
	})
}
