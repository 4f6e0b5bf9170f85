package hub_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// countsOf returns the counts of a namespace.
func countsOf(t testing.TB, h *hub.Hub, name string) hub.Counts {
	t.Helper()
	for _, n := range h.Stats().Namespaces {
		if n.Name == name {
			return n.Counts
		}
	}
	t.Fatalf("no namespace %q", name)
	return hub.Counts{}
}

// Each namespace is counted by itself, and the hub's probe for nothing.
func TestStatsByNamespace(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	subscribe(t, s, hub.SubscribeRequest{Channel: "table:x"})
	publishN(t, h, "stream:x", 1, 5)
	publishN(t, h, "stream:nobody", 1, 2)
	publishN(t, h, "table:x", 1, 3)
	must(t, h.Ready(testwait.Context(t)))
	testwait.True(t, "all is counted", func() bool { // a version of the row that was overtaken is not delivered
		s := h.Stats()
		return s.Delivered+s.Conflated == 8 && s.Received == 10 // the publication to the unused channel arrives separately
	})
	want := hub.Counts{Received: 7, Published: 7, Delivered: 5, New: 1, Subscriptions: 1, Channels: 1}
	if got := countsOf(t, h, "stream"); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if all := h.Stats(); all.Received != 10 || all.Published != 10 || all.New != 2 || all.Subscriptions != 2 || len(all.Namespaces) != 3 {
		t.Errorf("%+v", all)
	}
	s.Unsubscribe("stream:x")
	s.Close()
	if all := h.Stats(); all.Subscriptions != 0 || all.Sessions != 0 {
		t.Errorf("%+v", all)
	}
}

// What a client that reads late does not get of a table or a value is counted, and so is that it is blocked.
func TestStatsConflated(t *testing.T) {
	for _, tt := range []struct {
		channel              string
		conflated, delivered uint64
	}{{"value:x", 29, 1}, {"table:x", 27, 3}, {"stream:x", 0, 30}} {
		t.Run(tt.channel, func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
			c := newCarrier(t, shut, false)
			s := c.connect(h, client("slow"))
			subscribe(t, s, hub.SubscribeRequest{Channel: tt.channel})
			for i := range 30 {
				publish(t, h, tt.channel, push.Publication{Key: fmt.Sprint(i % 3), Data: []byte("1")})
			}
			settle(t, h, tt.channel)
			stuck(t, c)
			testwait.True(t, "it is blocked", func() bool { return h.Stats().Blocked == 1 })
			if got := h.Stats(); got.Stalls == 0 || got.Delivered != 0 || got.Conflated != 0 {
				t.Errorf("while it is blocked: %+v", got)
			}
			c.open(open)
			testwait.True(t, "it is served", func() bool { return h.Stats().Delivered == tt.delivered })
			testwait.True(t, "it is not blocked", func() bool { return h.Stats().Blocked == 0 })
			if got := h.Stats().Conflated; got != tt.conflated {
				t.Errorf("%d conflated, want %d", got, tt.conflated)
			}
			c.shut()
			publish(t, h, tt.channel, push.Publication{Key: "0", Data: []byte("1")})
			testwait.True(t, "it is blocked again", func() bool { return h.Stats().Blocked == 1 })
			s.Close()
			if got := h.Stats().Blocked; got != 0 {
				t.Errorf("%d blocked after the end", got)
			}
		})
	}
}

// What was evicted before a slow client had read it is lost, which is counted once.
func TestStatsLost(t *testing.T) {
	for _, oneWay := range []bool{false, true} {
		t.Run(fmt.Sprintf("oneWay=%t", oneWay), func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
			c := newCarrier(t, shut, false)
			o := client("slow")
			o.OneWay = oneWay
			s := c.connect(h, o)
			from := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"}).Position
			overtake(t, h, "stream:x")
			lost := countsOf(t, h, "stream").Received - 10
			stuck(t, c)
			c.open(open)
			testwait.True(t, "it is told", func() bool { return !s.Subscribes("stream:x") || len(c.disconnects()) > 0 })
			for range 3 {
				s.Flush()
			}
			got := countsOf(t, h, "stream")
			if got.Lost != lost || got.LostUnknown != 0 || !oneWay && (got.EndedBehind != 1 || got.Ended() != 1) {
				t.Errorf("%+v, want %d lost", got, lost)
			}
			again := newCarrier(t, open, false).connect(h, client("again"))
			subscribe(t, again, hub.SubscribeRequest{Channel: "stream:x", Since: &from})
			if got := countsOf(t, h, "stream"); got.FreshFloor != 1 {
				t.Errorf("coming back: %+v", got)
			}
		})
	}
}

// How clients came back is counted by what became of their positions.
func TestStatsResumed(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
	at := publishN(t, h, "stream:x", 1, 5)
	beyond, other := at, at
	beyond.Offset += 1000
	other.Epoch = "other"
	for i, since := range []*push.Position{nil, &at, &beyond, &other} {
		s := newCarrier(t, open, false).connect(h, client(fmt.Sprint(i)))
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: since})
	}
	got := countsOf(t, h, "stream")
	if got.New != 1 || got.Recovered != 1 || got.FreshAhead != 1 || got.FreshEpoch != 1 || got.FreshFloor != 0 {
		t.Errorf("%+v", got)
	}
}

// The observer is told of every delivery once, and with what age: served by the batch, or read from the log.
func TestObserver(t *testing.T) {
	const subscribers, publications = 70, 20 // more than the appending goroutine serves
	var mu sync.Mutex
	var passed, live, late int
	o := hub.Observer{
		BatchDone: func(took time.Duration, n int) {
			mu.Lock()
			defer mu.Unlock()
			passed += n
			if took < 0 || n < 1 {
				t.Errorf("a pass of %v with %d deliveries", took, n)
			}
		},
		Delivered: func(age time.Duration, n int, fromLog bool) {
			mu.Lock()
			defer mu.Unlock()
			if fromLog {
				late += n
			} else {
				live += n
			}
			if age < -time.Second || age > patience || n < 1 {
				t.Errorf("%d deliveries of age %v", n, age)
			}
		},
	}
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), &hub.Options{Observer: o})
	slow := newCarrier(t, shut, false)
	subscribe(t, slow.connect(h, client("slow")), hub.SubscribeRequest{Channel: "stream:x"})
	for i := range subscribers {
		subscribe(t, newCarrier(t, open, false).connect(h, client(fmt.Sprint(i))), hub.SubscribeRequest{Channel: "stream:x"})
	}
	publishN(t, h, "stream:x", 1, publications)
	must(t, h.Ready(testwait.Context(t)))
	told := func(want int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return live+late == want && passed == live
		}
	}
	testwait.True(t, "all deliveries are told", told(subscribers*publications))
	before := late
	slow.open(open)
	testwait.True(t, "those of the slow one are", told((subscribers+1)*publications))
	if late != before+publications {
		t.Errorf("%d late, %d before", late, before)
	}
	if got := h.Stats().Delivered; got != (subscribers+1)*publications {
		t.Errorf("%d delivered", got)
	}
}

// A stall is counted when it begins, however often the carrier is tried while it lasts.
func TestStallIsCountedOnce(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("stalled"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	publishN(t, h, "stream:x", 1, 5)
	testwait.True(t, "it is blocked", func() bool { return h.Stats().Blocked == 1 })
	for range 5 {
		s.Flush()
	}
	if got := h.Stats(); got.Blocked != 1 || got.Stalls != 1 {
		t.Errorf("%d blocked, %d stalls", got.Blocked, got.Stalls)
	}
	c.open(open)
	testwait.True(t, "it has all", func() bool { return len(c.taken()) > 0 && h.Stats().Blocked == 0 })
}
