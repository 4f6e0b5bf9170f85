package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// overtake publishes so much that the log forgets what a stalled reader has not read, and returns the newest position.
func overtake(t *testing.T, h *hub.Hub, name string) push.Position {
	t.Helper()
	at := publishN(t, h, name, 1, 50)
	settle(t, h, name)
	h.Sweep(time.Now()) // from the second sweep on only the namespace's history is kept
	h.Sweep(time.Now())
	return at
}

// settle waits until what was published to a channel is in its log.
func settle(t *testing.T, h *hub.Hub, name string) {
	t.Helper()
	_, err := h.History(testwait.Context(t), name, hub.HistoryRequest{})
	must(t, err)
}

// stuck waits until a carrier has refused something.
func stuck(t *testing.T, c *carrier) {
	t.Helper()
	testwait.True(t, "it refused", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refused
	})
}

// A client that reads too slowly for its stream is told so, gets nothing afterwards, and learns that it cannot go on from where it was.
func TestSlowStream(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("slow"))
	from := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"}).Position
	overtake(t, h, "stream:x")
	stuck(t, c)
	c.open(open)
	testwait.True(t, "the subscription ends", func() bool { return !s.Subscribes("stream:x") })
	publishN(t, h, "stream:x", 51, 5)
	want := []frame{{kind: "end", channel: "stream:x", offset: 2500}}
	if got := c.taken(); !slices.Equal(got, want) {
		t.Fatalf("the client got %v, not just the end", got)
	}
	if len(c.disconnects()) != 0 || h.Holds("stream:x") != 0 || h.Stats().Ended() != 1 {
		t.Errorf("disconnects %v, holds %d, ended %d", c.disconnects(), h.Holds("stream:x"), h.Stats().Ended())
	}
	again := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: &from})
	if again.Recovered || len(again.Deliveries) != 0 {
		t.Errorf("coming back from %v: %+v", from, again)
	}
	publishN(t, h, "stream:x", 56, 1)
	testwait.True(t, "the new subscription is served", func() bool { return len(c.taken()) == 2 })
	if got := c.taken()[1].data; got != "56" {
		t.Errorf("it began with %s", got)
	}
}

// The end itself may be refused: it is told when there is room, once.
func TestSlowStreamEndRefused(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("slow"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	overtake(t, h, "stream:x")
	stuck(t, c)
	for range 3 {
		s.Flush() // it says that there is room, and there is not
	}
	publishN(t, h, "stream:x", 51, 3)
	c.open(open)
	testwait.True(t, "the subscription ends", func() bool { return !s.Subscribes("stream:x") })
	s.Flush()
	if got := c.taken(); len(got) != 1 || got[0].kind != "end" {
		t.Fatalf("the client got %v", got)
	}
}

// A client that cannot subscribe by itself is disconnected instead, and connects again.
func TestSlowOneWay(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, shut, false)
	o := client("slow")
	o.OneWay = true
	s := c.connect(h, o)
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	overtake(t, h, "stream:x")
	stuck(t, c)
	c.open(open)
	testwait.True(t, "it is disconnected", func() bool { return len(c.disconnects()) > 0 })
	publishN(t, h, "stream:y", 1, 3)
	s.Flush()
	for _, d := range c.disconnects() {
		if d != push.DisconnectInsufficientState {
			t.Errorf("disconnected with %v", d)
		}
	}
	for _, f := range c.taken() {
		if f.kind == "end" || f.channel == "stream:x" {
			t.Errorf("the client got %v", f)
		}
	}
}

// Reading late is conflation: after a stall a client gets the newest version of each row, however much was published.
func TestSlowTable(t *testing.T) {
	for _, rows := range []int{1, 10, 300} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
			c := newCarrier(t, shut, false)
			subscribe(t, c.connect(h, client("slow")), hub.SubscribeRequest{Channel: "table:x"})
			const each = 20
			newest := map[string]string{}
			for i := range rows * each {
				key := fmt.Sprint(i % rows)
				newest[key] = fmt.Sprint(i)
				publish(t, h, "table:x", push.Publication{Key: key, Data: fmt.Append(nil, i)})
			}
			settle(t, h, "table:x")
			stuck(t, c)
			c.open(open)
			got := map[string]string{}
			testwait.True(t, "it has the rows", func() bool {
				for _, f := range c.taken() {
					got[f.key] = f.data
				}
				return len(got) == rows
			})
			for k, v := range newest {
				if got[k] != v {
					t.Errorf("row %s is %s, not %s", k, got[k], v)
				}
			}
			if n := len(c.taken()); n > rows {
				t.Errorf("%d frames for %d rows", n, rows)
			}
		})
	}
}

// A stalled client keeps the connection's refusals down: it is not offered anything again until it has room.
func TestStalledIsLeftAlone(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10_000}), nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("stalled"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	other := newSequence(t, h, "other")
	publishN(t, h, "stream:x", 1, 1000)
	publishN(t, h, "stream:y", 1, 1000)
	testwait.True(t, "the other has all", func() bool { return len(other.carrier.taken()) == 1000 })
	if n := c.calls(); n != 1 {
		t.Errorf("the stalled carrier was called %d times", n)
	}
	c.open(open)
	testwait.True(t, "it has all", func() bool { return len(c.taken()) == 2000 })
}

// A connection that has failed takes nothing and never calls Flush: no goroutine retries for ever, and closing frees everything.
func TestFailedCarrier(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, open, false)
	s := c.connect(h, client("failed"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	other := newSequence(t, h, "other")
	c.mu.Lock()
	c.broken = true
	c.mu.Unlock()
	publishN(t, h, "stream:x", 1, 500)
	testwait.True(t, "the other has all", func() bool { return len(other.carrier.taken()) == 500 })
	if n := c.calls(); n > 2 {
		t.Errorf("the failed carrier was called %d times", n)
	}
	s.Close()
	s.Close()
	s.Flush()
	if s.Subscribes("stream:x") || h.Holds("stream:x") != 1 {
		t.Errorf("subscribed %t, holds %d", s.Subscribes("stream:x"), h.Holds("stream:x"))
	}
}

// Whatever a connection takes each time, what it took is the sequence, and no refusal is forgotten.
func TestDribble(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100_000}), nil)
	var carriers []*carrier
	for i := range 16 {
		c := newCarrier(t, dribble(rand.New(rand.NewPCG(1, uint64(i)))), true)
		carriers = append(carriers, c)
		s := c.connect(h, client(fmt.Sprint(i)))
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	}
	const each = 400
	var wg sync.WaitGroup
	for _, name := range []string{"stream:x", "stream:y"} {
		wg.Go(func() { publishN(t, h, name, 0, each) })
	}
	testwait.Return(t, wg.Wait)
	for _, c := range carriers {
		testwait.True(t, "all have come", func() bool { return len(c.taken()) >= 2*each })
		next := map[string]int{}
		for _, f := range c.taken() {
			if f.data != fmt.Sprint(next[f.channel]) {
				t.Fatalf("%s: %s came when %d was due", f.channel, f.data, next[f.channel])
			}
			next[f.channel]++
		}
	}
}

// A session that stops in the middle of many channels goes on with the channels that had nothing yet: none starves.
func TestTurns(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10_000}), nil)
	c := newCarrier(t, shut, false)
	c.encoder = text{} // the room below is one of frames
	s := c.connect(h, client("slow"))
	const channels = 5
	for i := range channels {
		name := fmt.Sprintf("stream:%d", i)
		subscribe(t, s, hub.SubscribeRequest{Channel: name})
		publishN(t, h, name, 0, 600)
		settle(t, h, name)
	}
	served := map[string]bool{}
	for range channels + 1 {
		stuck(t, c)
		room := 300 // more than one read of a channel's log takes
		c.open(func(offered int) int {
			n := min(offered, room)
			room -= n
			return n
		})
	}
	stuck(t, c)
	for _, f := range c.taken() {
		served[f.channel] = true
	}
	if len(served) != channels {
		t.Errorf("after %d openings %d of %d channels were served", channels+1, len(served), channels)
	}
}

// A table that is loaded again while a client is in the midst of its rows: the rows have other places in the new log, and the client
// has all of them in the end.
func TestSweepAcrossReload(t *testing.T) {
	for name, fresh := range map[string]bool{"filling": true, "sweeping": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			h := newHub(t, r, spaces(push.History{Size: 10}), nil)
			c := newCarrier(t, shut, false)
			c.encoder = text{} // the room below is one of frames
			s := c.connect(h, client("slow"))
			f := newFeed("table:x")
			c.sink = f.take // under the carrier's lock
			truth := newTruth()
			put := func(key int) push.Position {
				p := push.Publication{Key: fmt.Sprint(key), Data: []byte("x")}
				at := publish(t, h, f.name, p)
				truth.add(f.name, at, p)
				return at
			}
			ask := func() {
				must(t, s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: f.name}, func(a hub.Subscribed) error {
					f.answered(a)
					return nil
				}))
			}
			if !fresh {
				ask()
			}
			const rows = 2000
			for i := range rows {
				put(i)
			}
			if fresh {
				ask()
			}
			settle(t, h, f.name)
			stuck(t, c)
			room := 500
			c.open(func(offered int) int {
				n := min(offered, room)
				room -= n
				return n
			})
			stuck(t, c)
			for i := range rows / 2 { // in the new log these come last
				put(i)
			}
			settle(t, h, f.name)
			r.lose()
			at := put(0)
			testwait.True(t, "the table is loaded again", func() bool {
				_, err := h.History(testwait.Context(t), f.name, hub.HistoryRequest{})
				return h.Applied(f.name) >= at.Offset && err == nil
			})
			c.open(open)
			testwait.True(t, "the client has all rows", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				must(t, f.broken)
				return f.level(truth, at.Epoch) == nil
			})
		})
	}
}

// restless is a connection that takes nothing and says at once, each time, that it has room.
type restless struct{ session atomic.Pointer[hub.Session] }

func (r *restless) TryWrite([]hub.Frame) int {
	if s := r.session.Load(); s != nil {
		s.Flush()
	}
	return 0
}

func (*restless) Disconnect(push.Disconnect) {}

// A session that is dirty again after each flush keeps no goroutine: neither the only worker, nor goroutines that unlock it.
func TestRestlessCarrier(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 1000}), &hub.Options{Workers: 1})
	r := &restless{}
	s, err := h.Connect(r, text{}, client("restless"))
	must(t, err)
	r.session.Store(s)
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	others := make([]*sequence, 100) // more than are served without a worker
	for i := range others {
		others[i] = newSequence(t, h, fmt.Sprint(i))
	}
	publishN(t, h, "stream:x", 0, 100)
	for _, o := range others {
		testwait.True(t, "the others have all", func() bool { return len(o.carrier.taken()) == 100 })
	}
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:y"})
	s.Close()
}

// However large the publications are, a bounded part of them is kept for clients that do not read.
func TestSlowStreamLarge(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("slow"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	data := make([]byte, hub.Allowance.MaxBytes/int64(hub.Allowance.MinEntries))
	for range hub.Allowance.MinEntries + 1 {
		publish(t, h, "stream:x", push.Publication{Data: data})
	}
	settle(t, h, "stream:x")
	stuck(t, c)
	c.open(open)
	testwait.True(t, "the subscription ends", func() bool { return !s.Subscribes("stream:x") })
}
