package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

// slowSpaces are namespaces with a policy, which keep so much, one for each mode that has it.
func slowSpaces(slow push.Slow, h push.History) []hub.Namespace {
	var out []hub.Namespace
	for _, ns := range spaces(h) {
		ns.Slow = slow
		if _, err := slow.In(ns.Mode); err == nil {
			out = append(out, ns)
		}
	}
	return out
}

// forget publishes so much that a stalled reader of a channel cannot be told everything any more. The hub keeps ten publications or removals,
// and nothing that is old.
func forget(t *testing.T, h *hub.Hub, mode push.Mode) {
	t.Helper()
	name := mode.String() + ":x"
	switch mode {
	case push.Stream:
		overtake(t, h, name)
	case push.Value:
		publish(t, h, name, push.Publication{Op: push.Remove})
		settle(t, h, name)
		h.Sweep(time.Now().Add(time.Hour))
	case push.Table:
		for i := range 20 {
			publish(t, h, name, push.Publication{Key: fmt.Sprint(i), Op: push.Remove})
		}
		settle(t, h, name)
	}
}

// What becomes of a client that is too slow, by policy.
func TestSlowPolicy(t *testing.T) {
	const told = "40 lost"
	for policy, want := range map[push.Slow][2]string{ // by itself, and one-way
		push.SlowConflate:    {"2500", "3010"},
		push.SlowLose:        {"2500", "3010"},
		push.SlowUnsubscribe: {"2510", "3008"},
		push.SlowDisconnect:  {"3008", "3008"},
		push.SlowAuto:        {"2500", "3010"},
	} {
		for _, mode := range []push.Mode{push.Stream, push.Value, push.Table} {
			holds, err := policy.In(mode)
			if err != nil {
				continue
			}
			for i := range 4 {
				oneWay, lossy := i&1 > 0, i&2 > 0
				want, isTold := want[i&1], lossy && holds == push.SlowLose
				if isTold {
					want = told
				}
				t.Run(fmt.Sprintf("%v/%v/oneWay=%t/lost=%t", policy, mode, oneWay, lossy), func(t *testing.T) {
					h := newHub(t, newBroker(t), slowSpaces(policy, push.History{Size: 10, Age: 30 * time.Minute}), nil)
					c := newCarrier(t, shut, false)
					o := client("slow")
					o.OneWay = oneWay
					s := c.connect(h, o)
					answer := subscribe(t, s, hub.SubscribeRequest{Channel: mode.String() + ":x", Lost: lossy})
					if answer.Lost != isTold {
						t.Errorf("it is answered that losses will be told: %t", answer.Lost)
					}
					publish(t, h, mode.String()+":x", push.Publication{Data: []byte("0")})
					stuck(t, c)
					forget(t, h, mode)
					c.open(open)
					testwait.True(t, "it hears of it", func() bool { return len(c.taken()) > 0 || len(c.disconnects()) > 0 })
					if got := fateOf(c); got != want {
						t.Errorf("%s, not %s", got, want)
					}
				})
			}
		}
	}
}

// fateOf says what became of a slow client: how many it lost, or with which code its subscription or connection ended.
func fateOf(c *carrier) string {
	if all := c.disconnects(); len(all) > 0 {
		return fmt.Sprint(all[0].Code)
	}
	first := c.taken()[0]
	if first.lost != 0 {
		return fmt.Sprint(first.lost-1, " lost") // but for the one that stalled it
	}
	return fmt.Sprint(first.offset)
}

// New refuses policies that a mode does not have.
func TestSlowPolicyRefused(t *testing.T) {
	for policy, mode := range map[push.Slow]push.Mode{push.SlowConflate: push.Stream, push.SlowLose: push.Table} {
		ns := spaces(push.History{Size: 10})[mode]
		ns.Slow = policy
		h, err := hub.New(testwait.Context(t), newBroker(t), []hub.Namespace{ns}, nil)
		if err == nil || !strings.Contains(err.Error(), ": use ") {
			t.Errorf("%v in a %v: %v", policy, mode, err)
		}
		if h != nil {
			must(t, h.Close())
		}
	}
}

// A clear or a gap is not a client's slowness: whatever the policy is, clients start fresh.
func TestNotSlow(t *testing.T) {
	for _, policy := range []push.Slow{push.SlowUnsubscribe, push.SlowDisconnect} {
		for what, mode := range map[string]push.Mode{"gap": push.Stream, "clear": push.Table, "reload": push.Table} {
			t.Run(fmt.Sprintf("%v/%v/%s", policy, mode, what), func(t *testing.T) {
				r := newRig(t, nil)
				h := newHub(t, r, slowSpaces(policy, push.History{Size: 10}), nil)
				c := newCarrier(t, open, false)
				name := mode.String() + ":x"
				s := c.connect(h, client("quick"))
				subscribe(t, s, hub.SubscribeRequest{Channel: name})
				switch what {
				case "clear":
					publish(t, h, name, push.Publication{Op: push.Clear})
				case "reload":
					r.mu.Lock()
					r.loaded = func(_ string, h broker.History) broker.History {
						h.Floor = h.Head
						return h
					}
					r.mu.Unlock()
					fallthrough
				case "gap":
					r.lose()
					publish(t, h, name, push.Publication{Key: "k", Data: []byte("1")})
				}
				testwait.True(t, "its subscription ends", func() bool { return !s.Subscribes(name) })
				if got := c.taken(); len(got) != 1 || got[0].offset != 2500 || len(c.disconnects()) > 0 {
					t.Errorf("it got %v, %v", got, c.disconnects())
				}
			})
		}
	}
}

// lossyClient is a client that is told what it loses, in a hub that keeps ten publications, none older than half an hour.
func lossyClient(t *testing.T, h *hub.Hub, g gate) (*carrier, *hub.Session, push.Position) {
	t.Helper()
	c := newCarrier(t, g, false)
	s := c.connect(h, client("lossy"))
	return c, s, subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Lost: true}).Position
}

// losses returns what a client got of numbers, with the losses it was told of.
func losses(c *carrier) []string {
	var out []string
	for _, f := range c.taken() {
		if f.lost != 0 {
			out = append(out, fmt.Sprint("lost ", f.lost))
		}
		out = append(out, f.data)
	}
	return out
}

func wantLosses(t *testing.T, c *carrier, want []string) {
	t.Helper()
	testwait.True(t, "it got everything", func() bool { return len(losses(c)) >= len(want) })
	if got := losses(c); !slices.Equal(got, want) {
		t.Fatalf("it got %v, not %v", got, want)
	}
}

// A client that is told what it lost goes on: it gets the number with what comes next, once, however often it is refused before.
func TestLost(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	c, s, from := lossyClient(t, h, shut)
	overtake(t, h, "stream:x")
	stuck(t, c)
	for range 3 {
		s.Flush() // it says that there is room, and there is not
	}
	if got := countsOf(t, h, "stream"); got.Lost != 0 {
		t.Errorf("%d lost before it was told", got.Lost)
	}
	c.open(open)
	want := append([]string{"lost 40"}, numbers(41, 10)...)
	wantLosses(t, c, want)
	publishN(t, h, "stream:x", 51, 2)
	wantLosses(t, c, append(want, "51", "52"))
	if got := countsOf(t, h, "stream"); got.Lost != 40 || got.LostUnknown != 0 || got.Ended() != 0 || !s.Subscribes("stream:x") {
		t.Errorf("%+v", got)
	}
	last := c.taken()[len(c.taken())-1].at
	for at, recovered := range map[push.Position]bool{from: false, last: true} {
		again := newCarrier(t, open, false).connect(h, client(fmt.Sprint(at.Offset)))
		if told := subscribe(t, again, hub.SubscribeRequest{Channel: "stream:x", Since: &at, Lost: true}); told.Recovered != recovered {
			t.Errorf("from %v: %+v", at, told)
		}
	}
}

// A loss behind which there is nothing is told with what comes next, together with what was lost since. Until then no session is woken for it,
// and a client that comes back before it was told starts fresh.
func TestLostAtTheEnd(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint("interval=", interval), func(t *testing.T) {
			h, clock := pacedHub(t, hub.Options{}, func(n *hub.Namespace) { n.History = push.History{Age: 30 * time.Minute} })
			c := newCarrier(t, shut, false)
			s := c.connect(h, client("lossy"))
			from := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Lost: true, Interval: interval}).Position
			lose := func(first, n int) {
				publishN(t, h, "stream:x", first, n)
				settle(t, h, "stream:x")
				h.Sweep(time.Now().Add(time.Hour))
			}
			publishN(t, h, "stream:x", 1, 1)
			testwait.True(t, "it refused", func() bool {
				clock.Advance(time.Second)
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.refused
			})
			lose(2, 4)
			c.open(open)
			clock.Advance(2 * time.Second)
			for range 3 {
				s.Flush()
			}
			asked := c.calls()
			c.shut()
			lose(6, 3)
			if interval > 0 {
				clock.Advance(2 * time.Second)
			}
			for range 3 {
				s.Flush()
			}
			if got := losses(c); len(got) > 0 {
				t.Fatalf("it got %v", got)
			}
			again := newCarrier(t, open, false).connect(h, client("again"))
			if told := subscribe(t, again, hub.SubscribeRequest{Channel: "stream:x", Since: &from}); told.Recovered {
				t.Errorf("coming back: %+v", told)
			}
			c.open(open)
			testwait.True(t, "nothing waits", func() bool {
				clock.Advance(2 * time.Second)
				return interval == 0 || s.Waiting() == 0
			})
			if n := c.calls() - asked; n > 6 {
				t.Errorf("it was offered something %d times", n)
			}
			if got := countsOf(t, h, "stream"); got.Lost != 0 && len(losses(c)) == 0 {
				t.Errorf("%d lost before it was told", got.Lost)
			}
			publishN(t, h, "stream:x", 9, 1)
			testwait.True(t, "it is told", func() bool {
				clock.Advance(time.Second)
				got := losses(c)
				return len(got) > 0 && got[len(got)-1] == "9"
			})
			// A flush that read the log before 6 to 8 were forgotten may have been slow to offer them.
			if got := losses(c); !slices.Equal(got, []string{"lost 8", "9"}) && !slices.Equal(got, []string{"lost 5", "6", "7", "8", "9"}) {
				t.Errorf("it got %v", got)
			}
			if got := countsOf(t, h, "stream"); got.Lost != 8 && got.Lost != 5 || got.Ended() != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A loss of an unknown number of publications stays unknown, whatever else is lost.
func TestLostUnknown(t *testing.T) {
	clock := pushtest.NewClock(time.Now())
	r := newRig(t, &memory.Options{Now: clock.Now})
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	c, s, _ := lossyClient(t, h, shut)
	publishN(t, h, "stream:x", 1, 1)
	stuck(t, c)
	r.lose()
	at := publishN(t, h, "stream:x", 2, 1)
	testwait.True(t, "the gap is known", func() bool { return h.Applied("stream:x") >= at.Offset })
	publishN(t, h, "stream:x", 3, 50)
	settle(t, h, "stream:x")
	h.Sweep(clock.Now())
	h.Sweep(clock.Now())
	c.open(open)
	wantLosses(t, c, append([]string{"lost -1"}, numbers(43, 10)...))
	if got := countsOf(t, h, "stream"); got.LostUnknown != 1 || got.Lost != 0 || got.Ended() != 0 || !s.Subscribes("stream:x") {
		t.Errorf("%+v", got)
	}
}
