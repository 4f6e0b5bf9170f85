package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// The answer comes before anything else of the channel, and what follows joins it: nothing is missing, nothing comes twice.
func TestReplyBeforePush(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100_000}), nil)
	ctx := testwait.Context(t)
	truth := newTruth()
	names := []string{"stream:x", "table:x", "value:x"}
	done := make(chan struct{})
	var publishers, readers sync.WaitGroup
	for _, name := range names {
		publishers.Go(func() {
			for i := 0; !isClosed(done) && ctx.Err() == nil; i++ {
				p := push.Publication{Data: fmt.Append(nil, i)}
				if name == "table:x" {
					p.Key = fmt.Sprint(i % 50)
				}
				truth.add(name, publish(t, h, name, p), p)
			}
		})
	}
	feeds := make([]*feed, 12)
	for i := range feeds {
		f := newFeed(names[i%len(names)])
		feeds[i] = f
		readers.Go(func() { comeAndGo(t, h, f, fmt.Sprint(i)) })
	}
	testwait.Return(t, readers.Wait)
	close(done)
	testwait.Return(t, publishers.Wait)
	for _, f := range feeds {
		must(t, f.broken)
		must(t, f.whole(truth))
		if f.fresh+f.recovered != 100 {
			t.Errorf("%s: %d fresh and %d recovered", f.name, f.fresh, f.recovered)
		}
	}
}

// comeAndGo subscribes and unsubscribes a hundred times, sometimes with the position it has.
func comeAndGo(t *testing.T, h *hub.Hub, f *feed, name string) {
	var mu sync.Mutex
	c := newCarrier(t, open, false)
	c.sink = func(in frame) {
		mu.Lock()
		defer mu.Unlock()
		f.take(in)
	}
	s, err := h.Connect(c, text{}, client(name))
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for i := range 100 {
		r := hub.SubscribeRequest{Channel: f.name}
		if i%3 != 0 {
			r.Since = f.since()
		}
		err := s.Subscribe(testwait.Context(t), r, func(a hub.Subscribed) error {
			mu.Lock()
			defer mu.Unlock()
			f.answered(a)
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		if i%2 == 0 {
			publish(t, h, f.name+" of somebody else", push.Publication{}) // takes a while
		}
		if !s.Unsubscribe(f.name) {
			t.Errorf("%s: the server ended the subscription", f.name)
		}
		mu.Lock()
		f.cut()
		mu.Unlock()
	}
}

func TestResume(t *testing.T) {
	filter := &channel.View{Filter: []channel.Term{{Tag: "side", Values: []string{"buy"}}}}
	fields := &channel.View{Fields: []string{"a"}}
	tests := []struct {
		name      string
		view      *channel.View // of the resume
		change    func(p *push.Position)
		recovered bool
		want      []string
	}{
		{"what was missed", nil, func(*push.Position) {}, true, numbers(6, 5)},
		{"further back", nil, func(p *push.Position) { p.Offset -= 3 }, true, numbers(3, 8)},
		{"nothing was missed", nil, func(p *push.Position) { p.Offset += 5 }, true, nil},
		{"above the head", nil, func(p *push.Position) { p.Offset += 6 }, false, nil},
		{"far above the head", nil, func(p *push.Position) { p.Offset = push.MaxOffset }, false, nil},
		{"beyond all offsets", nil, func(p *push.Position) { p.Offset = 1 << 63 }, false, nil},
		{"another epoch", nil, func(p *push.Position) { p.Epoch += "x" }, false, nil},
		{"no epoch", nil, func(p *push.Position) { p.Epoch = "" }, false, nil},
		{"another filter", filter, func(*push.Position) {}, false, nil},
		{"other fields", fields, func(*push.Position) {}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
			at := publishN(t, h, "stream:x", 1, 5)
			publishN(t, h, "stream:x", 6, 5)
			tt.change(&at)
			c := newCarrier(t, open, false)
			got := subscribe(t, c.connect(h, client("a")), hub.SubscribeRequest{Channel: "stream:x", Since: &at, View: tt.view})
			if got.Recovered != tt.recovered || !slices.Equal(contents(got.Deliveries, nil), tt.want) {
				t.Errorf("recovered %t with %v", got.Recovered, contents(got.Deliveries, nil))
			}
			stats := h.Stats()
			if tt.recovered && stats.Recovered != 1 || !tt.recovered && stats.Fresh() != 1 {
				t.Errorf("counted: %+v", stats)
			}
			publish(t, h, "stream:x", push.Publication{Data: []byte("next"), Tags: map[string]string{"side": "buy"}})
			testwait.True(t, "the next one comes", func() bool { return len(c.taken()) == 1 })
			if f := c.taken()[0]; f.data != "next" || f.at.Epoch != got.Position.Epoch || f.at.Offset <= got.Position.Offset {
				t.Errorf("from %v on came %v", got.Position, f)
			}
		})
	}
}

// A view's own position can be resumed, and shows the same rows as before.
func TestResumeView(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
	view := &channel.View{Filter: []channel.Term{{Tag: "side", Values: []string{"buy"}}}}
	tagged := func(data, side string) push.Publication {
		return push.Publication{Data: []byte(data), Tags: map[string]string{"side": side}}
	}
	s := newCarrier(t, open, false).connect(h, client("a"))
	first := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", View: view})
	s.Unsubscribe("stream:x")
	publish(t, h, "stream:x", tagged("1", "buy"))
	publish(t, h, "stream:x", tagged("2", "sell"))
	publish(t, h, "stream:x", tagged("3", "buy"))
	again := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", View: view, Since: &first.Position})
	if got := contents(again.Deliveries, nil); !again.Recovered || !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("recovered %t with %v", again.Recovered, got)
	}
	if again.Position.Epoch != first.Position.Epoch {
		t.Errorf("the view's epoch went from %q to %q", first.Position.Epoch, again.Position.Epoch)
	}
}

// More than an answer may carry follows as pushes, in order.
func TestResumeMuch(t *testing.T) {
	for _, name := range []string{"stream:x", "table:x"} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 100_000}), nil)
			start := publish(t, h, name, push.Publication{Key: "0", Data: []byte("0")})
			const more = 3000
			for i := 1; i <= more; i++ {
				publish(t, h, name, push.Publication{Key: fmt.Sprint(i), Data: fmt.Append(nil, i)})
			}
			c := newCarrier(t, open, false)
			a := subscribe(t, c.connect(h, client("a")), hub.SubscribeRequest{Channel: name, Since: &start})
			testwait.True(t, "all have come", func() bool { return len(a.Deliveries)+len(c.taken()) >= more })
			got := contents(a.Deliveries, c.taken())
			if name == "table:x" {
				slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
				slices.Sort(got)
				got = slices.Compact(got)
				if len(got) != more {
					t.Errorf("%d different rows", len(got))
				}
				return
			}
			if !a.Recovered || !slices.Equal(got, numbers(1, more)) {
				t.Errorf("recovered %t, %d entries", a.Recovered, len(got))
			}
		})
	}
}

// A client that was further than this hub is, because it came from another, waits for it and gets nothing twice.
func TestResumeAboveHead(t *testing.T) {
	r := newRig(t, nil)
	ahead := newHub(t, r, spaces(push.History{Size: 100}), nil)
	publishN(t, ahead, "stream:x", 1, 3)
	settle(t, ahead, "stream:x")
	behind := newHub(t, r, spaces(push.History{Size: 100}), nil)
	settle(t, behind, "stream:x") // loaded, at 3
	release := r.hold()
	at, err := r.Publish(testwait.Context(t), "stream:x", push.Publication{Data: []byte("4")}, noOptions)
	must(t, err)
	c := newCarrier(t, open, false)
	got := subscribe(t, c.connect(behind, client("a")), hub.SubscribeRequest{Channel: "stream:x", Since: &at})
	if !got.Recovered || got.Position != at || len(got.Deliveries) != 0 {
		t.Errorf("ahead of the hub: %+v", got)
	}
	void := at
	void.Offset++
	s := newCarrier(t, open, false).connect(behind, client("b"))
	if got := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: &void}); got.Recovered {
		t.Errorf("ahead of the broker: %+v", got)
	}
	release()
	publishN(t, behind, "stream:x", 5, 2)
	testwait.True(t, "the rest comes", func() bool { return len(c.taken()) >= 2 })
	if got := contents(nil, c.taken()); !slices.Equal(got, numbers(5, 2)) {
		t.Errorf("it got %v", got)
	}
}

// When the broker has a new epoch of which this node has not heard yet, a client that is further than the node is asked to try again. If it began anew
// here, it would go back to what it was told before.
func TestResumeAboveHeadNewEpoch(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 100}), nil)
	at := publishN(t, h, "stream:x", 1, 3)
	settle(t, h, "stream:x")
	at.Offset++
	r.set(func(r *rig) {
		r.onHead = func(p push.Position) push.Position { return push.Position{Epoch: "new", Offset: p.Offset + 1} }
	})
	s := newCarrier(t, open, false).connect(h, client("a"))
	err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x", Since: &at}, unwanted(t))
	if !errors.Is(err, push.ErrInternal) || h.Holds("stream:x") != 0 {
		t.Errorf("error %v, holds %d", err, h.Holds("stream:x"))
	}
}

// When the broker cannot say whether a position is known, the client is asked to try again.
func TestResumeAboveHeadBrokerFails(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 100}), nil)
	at := publishN(t, h, "stream:x", 1, 3)
	settle(t, h, "stream:x")
	at.Offset += 10
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	must(t, r.current().Close())
	err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x", Since: &at}, unwanted(t))
	if !errors.Is(err, push.ErrInternal) || h.Holds("stream:x") != 0 {
		t.Errorf("error %v, holds %d", err, h.Holds("stream:x"))
	}
}

// unwanted is an answer that must not be given.
func unwanted(t *testing.T) func(hub.Subscribed) error {
	return func(a hub.Subscribed) error {
		t.Errorf("answered: %+v", a)
		return nil
	}
}

func TestSubscribeRefused(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), &hub.Options{SubscriptionsPerSession: 2})
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:1"})
	tests := []struct {
		name, channel string
		want          error
	}{
		{"twice", "stream:1", push.ErrAlreadySubscribed},
		{"unknown namespace", "nothing:1", push.ErrUnknownChannel},
		{"no namespace", "x", push.ErrUnknownChannel},
		{"no name", "", push.ErrBadRequest},
		{"bad name", "stream:\x00", push.ErrBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: tt.channel}, unwanted(t))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:2"})
	if err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:3"}, unwanted(t)); !errors.Is(err, push.ErrLimitExceeded) {
		t.Errorf("one too many: %v", err)
	}
	s.Close()
	if err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:4"}, unwanted(t)); !errors.Is(err, push.ErrInternal) {
		t.Errorf("after Close: %v", err)
	}
}

// Commands that run at the same time do not get past the bound, nor twice into a channel.
func TestSubscribeAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.set(func(r *rig) { r.onLoad = untilAll(10) })
	h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{SubscriptionsPerSession: 5})
	s := newCarrier(t, open, false).connect(h, client("a"))
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			r := hub.SubscribeRequest{Channel: fmt.Sprintf("stream:%d", i/2)}
			errs[i] = s.Subscribe(testwait.Context(t), r, func(hub.Subscribed) error { return nil })
		})
	}
	testwait.Return(t, wg.Wait)
	n := 0
	for i, err := range errs {
		switch {
		case err == nil:
			n++
		case !errors.Is(err, push.ErrLimitExceeded) && !errors.Is(err, push.ErrAlreadySubscribed):
			t.Errorf("%d: %v", i, err)
		}
	}
	held := 0
	for i := range 10 {
		held += max(h.Holds(fmt.Sprintf("stream:%d", i)), 0)
	}
	if n != 5 || held != 5 || h.Stats().Subscriptions != 5 {
		t.Errorf("%d succeeded, %d held, %d counted", n, held, h.Stats().Subscriptions)
	}
	leases, err := r.ListLeases(testwait.Context(t), "presence/")
	must(t, err)
	if len(leases) != 5 {
		t.Errorf("%d clients are present", len(leases))
	}
}

// A subscription whose answer fails is undone without a trace, and no other client notices.
func TestSubscribeUndone(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	other := newSequence(t, h, "other")
	s := newCarrier(t, open, false).connect(h, client("a"))
	broken := errors.New("the client has gone")
	for range 3 {
		err := s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x"}, func(hub.Subscribed) error { return broken })
		if !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
	}
	if s.Subscribes("stream:x") || h.Holds("stream:x") != 1 {
		t.Errorf("subscribed %t, holds %d", s.Subscribes("stream:x"), h.Holds("stream:x"))
	}
	present, err := h.Presence(testwait.Context(t), "stream:x")
	must(t, err)
	if len(present) != 1 {
		t.Errorf("present: %v", present)
	}
	publishN(t, h, "stream:x", 1, 1)
	testwait.True(t, "the other is served", func() bool { return len(other.carrier.taken()) == 1 })
	if s.Unsubscribe("stream:x") {
		t.Error("there was something to unsubscribe from")
	}
}
