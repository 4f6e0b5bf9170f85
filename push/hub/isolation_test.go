package hub_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
)

// watched is a carrier that takes everything and says when.
type watched struct {
	*carrier
	taking func()
}

func (w *watched) TryWrite(frames []hub.Frame) int {
	w.taking()
	return len(frames)
}

// A channel with very many subscribers does not hold up the others: they are served while it is still being served.
func TestLargeRoundHoldsNobodyUp(t *testing.T) {
	const many, some = 12_000, 100
	ns := []hub.Namespace{{Namespace: broker.Namespace{Name: "stream", Mode: push.Stream, History: push.History{Size: 10}, Partitions: 1}}}
	h := newHub(t, newBroker(t), ns, &hub.Options{Workers: 1})
	begun, goOn := make(chan struct{}), make(chan struct{})
	var served, others, before atomic.Int64
	join := func(name, channel string, taking func()) {
		c := newCarrier(t, open, false)
		s, err := h.Connect(&watched{c, taking}, c.encoder, client(name))
		must(t, err)
		t.Cleanup(s.Close)
		subscribe(t, s, hub.SubscribeRequest{Channel: channel})
	}
	for i := range many {
		join("one of many "+strconv.Itoa(i), "stream:large", func() {
			if served.Add(1) == 1 {
				close(begun)
				testwait.Hold(t, goOn)
			}
		})
	}
	for i := range some {
		join("one of some "+strconv.Itoa(i), "stream:small", func() {
			if others.Add(1) == 1 {
				before.Store(served.Load())
			}
		})
	}
	publishN(t, h, "stream:large", 1, 1)
	testwait.Receive(t, begun)
	publishN(t, h, "stream:small", 1, 1)
	testwait.True(t, "both wait for the worker", func() bool { return h.Stats().Waiting >= 2 })
	close(goOn)
	testwait.True(t, "all are served", func() bool { return served.Load() == many && others.Load() == some })
	if n := before.Load(); n == many {
		t.Errorf("the small channel was served after all %d of the large one", n)
	}
}
