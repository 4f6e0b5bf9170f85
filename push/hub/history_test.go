package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

func dataOf(entries []*channel.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, string(e.Data))
	}
	return out
}

func TestHistory(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	at := map[int]push.Position{}
	for i := 1; i <= 15; i++ {
		at[i] = publishN(t, h, "stream:x", i, 1)
	}
	for i := 1; i <= 6; i++ {
		at[100+i] = publish(t, h, "table:x", push.Publication{Key: fmt.Sprint(i % 4), Data: fmt.Append(nil, i)})
	}
	publish(t, h, "table:x", push.Publication{Key: "3", Op: push.Remove})
	publishN(t, h, "value:x", 1, 3)
	foreign := at[12]
	foreign.Epoch = "another"
	anyLife := push.Position{Offset: at[12].Offset}

	since := func(i int) *push.Position { p := at[i]; return &p }
	tests := []struct {
		name, channel string
		request       hub.HistoryRequest
		want          []string
	}{
		{"position only", "stream:x", hub.HistoryRequest{}, nil},
		{"all", "stream:x", hub.HistoryRequest{Limit: -1}, numbers(6, 10)},
		{"more than there are", "stream:x", hub.HistoryRequest{Limit: 1000}, numbers(6, 10)},
		{"the oldest", "stream:x", hub.HistoryRequest{Limit: 2}, []string{"6", "7"}},
		{"the newest", "stream:x", hub.HistoryRequest{Limit: 2, Reverse: true}, []string{"15", "14"}},
		{"all reversed", "stream:x", hub.HistoryRequest{Limit: -1, Reverse: true}, reversed(numbers(6, 10))},
		{"none reversed", "stream:x", hub.HistoryRequest{Reverse: true}, nil},
		{"since", "stream:x", hub.HistoryRequest{Limit: -1, Since: since(12)}, []string{"13", "14", "15"}},
		{"since, limited", "stream:x", hub.HistoryRequest{Limit: 1, Since: since(12)}, []string{"13"}},
		{"since any life", "stream:x", hub.HistoryRequest{Limit: 1, Since: &anyLife}, []string{"13"}},
		{"since the newest", "stream:x", hub.HistoryRequest{Limit: -1, Since: since(15)}, nil},
		{"since the oldest that is whole", "stream:x", hub.HistoryRequest{Limit: -1, Since: since(5)}, numbers(6, 10)},
		{"before", "stream:x", hub.HistoryRequest{Limit: 2, Since: since(12), Reverse: true}, []string{"11", "10"}},
		{"before, to the oldest", "stream:x", hub.HistoryRequest{Limit: -1, Since: since(8), Reverse: true}, []string{"7", "6"}},
		{"since the beginning", "stream:x", hub.HistoryRequest{Limit: 2, Since: &push.Position{}}, []string{"6", "7"}},
		{"rows", "table:x", hub.HistoryRequest{Limit: -1}, []string{"4", "5", "6"}},
		{"rows reversed", "table:x", hub.HistoryRequest{Limit: 2, Reverse: true}, []string{"6", "5"}},
		{"rows since", "table:x", hub.HistoryRequest{Limit: -1, Since: since(104)}, []string{"5", "6"}},
		{"rows before", "table:x", hub.HistoryRequest{Limit: -1, Since: since(106), Reverse: true}, []string{"5", "4"}},
		{"value", "value:x", hub.HistoryRequest{Limit: -1}, []string{"3"}},
		{"nothing there", "stream:empty", hub.HistoryRequest{Limit: -1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := h.History(testwait.Context(t), tt.channel, tt.request)
			must(t, err)
			if got := dataOf(found.Entries); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if found.Position.Epoch == "" || found.Position.Offset == 0 && tt.channel != "stream:empty" {
				t.Errorf("position %v", found.Position)
			}
		})
	}
	for name, request := range map[string]hub.HistoryRequest{
		"too old":                     {Limit: -1, Since: since(4)},
		"another life":                {Limit: -1, Since: &foreign},
		"reversed, before the oldest": {Limit: -1, Since: since(2), Reverse: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := h.History(testwait.Context(t), "stream:x", request); !errors.Is(err, push.ErrUnrecoverablePosition) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := h.History(testwait.Context(t), "nothing:x", hub.HistoryRequest{}); !errors.Is(err, push.ErrUnknownChannel) {
		t.Errorf("unknown channel: %v", err)
	}
}

// The zero position is how SDKs ask for what there is: the history comes with the subscription, and nothing is missing.
func TestSubscribeSinceTheBeginning(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 3}), nil)
	for _, n := range []int{0, 2, 5} { // none, all and some are there
		name := fmt.Sprintf("stream:%d", n)
		for i := range n {
			publishN(t, h, name, i+1, 1)
		}
		settle(t, h, name)
		c := newCarrier(t, open, false)
		got := subscribe(t, c.connect(h, client(name)), hub.SubscribeRequest{Channel: name, Since: &push.Position{}})
		want := numbers(max(n-2, 1), min(n, 3))
		if data := contents(got.Deliveries, nil); !got.Recovered || !slices.Equal(data, want) {
			t.Errorf("%s: recovered %t, with %v, want %v", name, got.Recovered, data, want)
		}
	}
}

func reversed(s []string) []string {
	slices.Reverse(s)
	return s
}

// What a namespace keeps by bytes and age is what history shows, though the log keeps more for a while.
func TestHistoryBounds(t *testing.T) {
	clock := pushtest.NewClock(time.Now().Add(-time.Hour))
	tests := []struct {
		name    string
		history push.History
		want    []string
	}{
		{"bytes", push.History{Bytes: 3}, []string{"7", "8", "9"}},
		{"size and bytes", push.History{Size: 2, Bytes: 3}, []string{"8", "9"}},
		{"age", push.History{Age: time.Minute}, nil},
		{"nothing fits", push.History{Size: 5, Age: 2 * time.Hour}, numbers(5, 5)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := memory.New(&memory.Options{Now: clock.Now})
			t.Cleanup(func() { must(t, b.Close()) })
			h := newHub(t, b, spaces(tt.history), nil)
			settle(t, h, "stream:x") // so that the hub's own log holds them
			publishN(t, h, "stream:x", 0, 10)
			for range 3 {
				found, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{Limit: -1})
				must(t, err)
				if got := dataOf(found.Entries); !slices.Equal(got, tt.want) {
					t.Errorf("got %v, want %v", got, tt.want)
				}
				h.Sweep(time.Now()) // the log forgets the rest
			}
		})
	}
}

// Channels that hold nothing do not linger, so that names alone take no memory, and of the others only so many do.
func TestUnusedChannels(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), &hub.Options{UnusedChannels: 3})
	s := newCarrier(t, open, false).connect(h, client("a"))
	for i := range 20 {
		name := fmt.Sprintf("stream:nothing%d", i)
		subscribe(t, s, hub.SubscribeRequest{Channel: name})
		s.Unsubscribe(name)
		_, err := h.History(testwait.Context(t), name, hub.HistoryRequest{})
		must(t, err)
		if n := h.Holds(name); n != -1 {
			t.Fatalf("%s stays, held by %d", name, n)
		}
	}
	something := func(i int) string { return fmt.Sprintf("stream:something%d", i) }
	for i := range 5 {
		publishN(t, h, something(i), 1, 1)
		subscribe(t, s, hub.SubscribeRequest{Channel: something(i)})
	}
	for i := range 4 {
		s.Unsubscribe(something(i))
	}
	h.Sweep(time.Now())
	left := 0
	for i := range 4 {
		if h.Holds(something(i)) == 0 {
			left++
		}
	}
	if left != 3 || h.Holds(something(4)) != 1 {
		t.Errorf("%d unused channels are left, the one in use is held by %d", left, h.Holds(something(4)))
	}
}

// An unused channel is dropped after Options.Linger, and comes back with everything that its broker keeps.
func TestLinger(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 100}), &hub.Options{Linger: time.Minute})
	at := publishN(t, h, "stream:x", 1, 5)
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	h.Sweep(time.Now().Add(time.Hour))
	if h.Holds("stream:x") != 1 {
		t.Fatalf("a channel in use: held by %d", h.Holds("stream:x"))
	}
	s.Unsubscribe("stream:x")
	h.Sweep(time.Now().Add(30 * time.Second))
	if h.Holds("stream:x") != 0 {
		t.Fatalf("before its linger is over: held by %d", h.Holds("stream:x"))
	}
	h.Sweep(time.Now().Add(2 * time.Minute))
	if h.Holds("stream:x") != -1 {
		t.Fatalf("after its linger: held by %d", h.Holds("stream:x"))
	}
	publishN(t, h, "stream:x", 6, 5)
	got := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: &at})
	if !got.Recovered || !slices.Equal(contents(got.Deliveries, nil), numbers(6, 5)) {
		t.Errorf("recovered %t with %v", got.Recovered, contents(got.Deliveries, nil))
	}
	if n := r.loads.Load(); n != 2 {
		t.Errorf("it was loaded %d times", n)
	}
}
