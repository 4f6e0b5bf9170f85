package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// A fan-out batch writes to sessions that get one shared frame together, and to the others one by one: if a carrier is no BatchWriter, the session
// gets frames of two channels or has a view, or its lock is taken. Every subscriber gets everything, once.
func TestBatchWrite(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 100}), nil)
	const crowd = 2*hub.Chunk + 30
	carriers := make([]*carrier, crowd)
	for i := range carriers {
		c := newCarrier(t, open, false)
		c.alone = i%10 == 3
		s := c.connect(h, client(fmt.Sprint(i)))
		subscribe(t, s, hub.SubscribeRequest{Channel: "stream:a"})
		if i%10 == 5 {
			subscribe(t, s, hub.SubscribeRequest{Channel: "stream:b"})
		}
		carriers[i] = c
	}
	const slow = 7 // refuses, and is served when it has room
	carriers[slow].shut()
	publishN(t, h, "stream:a", 0, 3) // which are one frame, however many are served together
	publishN(t, h, "stream:b", 0, 3)
	batches := int32(0)
	for i, c := range carriers {
		if i == slow {
			testwait.True(t, "it is offered something", func() bool { return c.calls() > 0 })
			if got := c.taken(); len(got) > 0 {
				t.Errorf("a carrier that takes nothing took %v", got)
			}
			c.open(open)
		}
		want := 3
		if i%10 == 5 {
			want = 6
		}
		testwait.True(t, "all have come", func() bool { return len(c.taken()) >= want })
		got := slices.DeleteFunc(c.taken(), func(f frame) bool { return f.channel != "stream:a" })
		if !slices.Equal(contents(nil, got), numbers(0, 3)) || len(c.taken()) != want {
			t.Errorf("client %d got %v", i, c.taken())
		}
		if batches += c.batches.Load(); c.alone && c.batches.Load() > 0 {
			t.Errorf("client %d, which is no BatchWriter, got a batched write", i)
		}
	}
	if batches < 2 {
		t.Errorf("there were %d batched writes", batches)
	}
	if n := h.Stats().Blocked; n != 0 {
		t.Errorf("%d sessions are blocked", n)
	}
}

// Some carriers of a batched write refuse each time, and call Flush later. No client misses anything, and only taken frames count as delivered.
func TestBatchWriteStalls(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 1000}), nil)
	const crowd, n = 100, 50
	carriers := make([]*carrier, crowd)
	for i := range carriers {
		g := open
		if i%3 == 0 {
			g = dribble(rand.New(rand.NewPCG(1, uint64(i))))
		}
		carriers[i] = newCarrier(t, g, true)
		subscribe(t, carriers[i].connect(h, client(fmt.Sprint(i))), hub.SubscribeRequest{Channel: []string{"stream:a", "stream:b"}[i%2]})
	}
	for i := range n {
		publishN(t, h, "stream:a", i, 1)
		publishN(t, h, "stream:b", i, 1)
	}
	for i, c := range carriers {
		testwait.True(t, "all have come", func() bool { return len(c.taken()) >= n })
		if got := contents(nil, c.taken()); !slices.Equal(got, numbers(0, n)) {
			t.Errorf("client %d got %v", i, got)
		}
	}
	testwait.True(t, "all is counted", func() bool { return h.Stats().Delivered == crowd*n })
}
