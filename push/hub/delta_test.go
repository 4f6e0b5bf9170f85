package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// document is data in which little differs from one to the next.
func document(n int) []byte {
	return fmt.Appendf(nil, `{"symbol":"the same in all of them","n":%d}`, n)
}

// forms returns in which forms a carrier has got its publications.
func (c *carrier) forms() []push.Delta {
	var out []push.Delta
	for _, f := range c.taken() {
		out = append(out, f.form)
	}
	return out
}

// follower is a client that takes differences in a form, subscribed to a channel.
func follower(t *testing.T, h *hub.Hub, name string, form push.Delta, r hub.SubscribeRequest) (*carrier, hub.Subscribed) {
	t.Helper()
	c := newCarrier(t, open, false)
	s := c.connect(h, client(fmt.Sprintf("%v of %s", form, name)))
	r.Channel, r.Delta = name, form
	return c, subscribe(t, s, r)
}

// Publications go as differences to clients that take that form and hold the publication it builds on, and in full to the others.
func TestDelta(t *testing.T) {
	h := newHub(t, newBroker(t), lawSpaces(push.History{Size: 100}), nil)
	for _, name := range []string{"stream:a", "value:a", "table:a"} {
		t.Run(name, func(t *testing.T) {
			put := func(n int) { publish(t, h, name, push.Publication{Key: "k", Data: document(n)}) }
			put(0)
			clients := map[push.Delta]*carrier{}
			for form := push.NoDelta; form <= push.Merge; form++ {
				c, told := follower(t, h, name, form, hub.SubscribeRequest{Keyed: true})
				if clients[form] = c; told.Delta != form {
					t.Errorf("differences of form %v are answered with %v", form, told.Delta)
				}
			}
			for n := 1; n <= 3; n++ {
				put(n)
				for form, c := range clients {
					testwait.True(t, fmt.Sprintf("%v: publication %d", form, n), func() bool { return len(c.taken()) >= n })
				}
			}
			for form, c := range clients {
				want := []push.Delta{form, form, form}
				if name == "stream:a" { // what was there before is not relied on
					want[0] = push.NoDelta
				}
				if got := c.forms(); !slices.Equal(got, want) {
					t.Errorf("%v: the publications came as %v, want %v", form, got, want)
				}
			}
			for form, want := range map[push.Delta]string{push.NoDelta: string(document(3)), push.Merge: `{"n":3}`} {
				if got := clients[form].data()[2]; got != want {
					t.Errorf("%v: got %s, want %s", form, got, want)
				}
			}
		})
	}
}

// A client that does not hold the base of a difference, or cannot say that it does, gets everything in full.
func TestNoDelta(t *testing.T) {
	h := newHub(t, newBroker(t), append(lawSpaces(push.History{Size: 100}), namespace("plain", push.Value)), nil)
	for _, tt := range []struct {
		name string
		ask  hub.SubscribeRequest
	}{
		{"table:one-base", hub.SubscribeRequest{}},
		{"stream:filter", hub.SubscribeRequest{View: &channel.View{Filter: []channel.Term{{Tag: "t", Values: []string{"1"}}}}, Keyed: true}},
		{"stream:fields", hub.SubscribeRequest{View: &channel.View{Fields: []string{"n"}}, Keyed: true}},
		{"plain:none", hub.SubscribeRequest{Keyed: true}},
	} {
		c, told := follower(t, h, tt.name, push.Fossil, tt.ask)
		if told.Delta != push.NoDelta {
			t.Errorf("%s: differences are answered with %v", tt.name, told.Delta)
		}
		for n := range 3 {
			publish(t, h, tt.name, push.Publication{Key: "k", Data: document(n), Tags: map[string]string{"t": "1"}})
			testwait.True(t, tt.name, func() bool { return len(c.taken()) > n })
		}
		if got := c.data(); slices.Contains(c.forms(), push.Fossil) || got[2] != string(document(2)) {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func namespace(name string, mode push.Mode) hub.Namespace {
	var ns hub.Namespace
	ns.Name, ns.Mode = name, mode
	return ns
}

// A client that is served late gets the difference to what it was sent last, where that is what the newest replaced; of a stream each
// to the one before.
func TestDeltaLate(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, func(n *hub.Namespace) { n.Deltas = []push.Delta{push.Fossil} })
	for _, tt := range []struct {
		name string
		want []push.Delta
	}{
		{"value:a", []push.Delta{push.NoDelta, push.Fossil, push.NoDelta, push.Fossil}},
		{"table:a", []push.Delta{push.NoDelta, push.Fossil, push.NoDelta, push.Fossil}},
		{"stream:a", []push.Delta{push.NoDelta, push.Fossil, push.Fossil, push.Fossil, push.Fossil}},
	} {
		c := newCarrier(t, open, false)
		s := c.connect(h, client("late "+tt.name))
		subscribe(t, s, hub.SubscribeRequest{Channel: tt.name, Delta: push.Fossil, Keyed: true, Interval: 100 * time.Millisecond})
		fast, _ := follower(t, h, tt.name, push.NoDelta, hub.SubscribeRequest{}) // shows what the hub has taken notice of
		n := 0
		for _, some := range []int{1, 1, 2, 1} { // publications in an interval
			for range some {
				publish(t, h, tt.name, push.Publication{Key: "k", Data: document(n)})
				n++
				testwait.True(t, "the hub has it", func() bool { return len(fast.taken()) == n })
			}
			hasAll := func() bool {
				got := c.taken()
				return len(got) > 0 && got[len(got)-1].at.Offset == fast.taken()[n-1].at.Offset
			}
			testwait.True(t, "it is served, or waits", func() bool { return hasAll() || s.Waiting() == 1 })
			s.Waiting() // the pacer has taken notice of the write
			clock.Advance(100*time.Millisecond + tick)
			testwait.True(t, fmt.Sprintf("%s: it has number %d", tt.name, n-1), func() bool {
				clock.Advance(0)
				return hasAll()
			})
		}
		if got := c.forms(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the publications came as %v, want %v", tt.name, got, tt.want)
		}
	}
}
