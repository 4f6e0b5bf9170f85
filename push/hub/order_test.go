package hub_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
)

// Every subscriber sees the same whole sequence: whatever the history keeps, a client whose connection takes everything loses nothing.
func TestOrder(t *testing.T) {
	tests := []struct {
		name                          string
		history                       push.History
		subscribers, publishers, each int
	}{
		{"long history", push.History{Size: 10_000}, 20, 10, 1000},
		{"short history", push.History{Size: 10}, 20, 10, 1000},
		{"few bytes", push.History{Bytes: 100}, 20, 10, 1000},
		{"several chunks", push.History{Size: 10}, 3000, 4, 50},
		{"one subscriber", push.History{Size: 10}, 1, 10, 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(tt.history), nil)
			var readers []*sequence
			for i := range tt.subscribers {
				readers = append(readers, newSequence(t, h, fmt.Sprint(i)))
			}
			var wg sync.WaitGroup
			for p := range tt.publishers {
				wg.Go(func() {
					for i := range tt.each {
						publish(t, h, "stream:x", push.Publication{Data: fmt.Appendf(nil, "%d/%d", p, i)})
					}
				})
			}
			testwait.Return(t, wg.Wait)
			total := tt.publishers * tt.each
			for _, r := range readers {
				testwait.True(t, "all have come", func() bool { return len(r.carrier.taken()) >= total })
			}
			first := readers[0].carrier.taken()
			checkEachOnce(t, first, tt.publishers, tt.each)
			for i, r := range readers {
				checkSame(t, i, r.carrier.taken(), first)
			}
			if ended := h.Stats().Ended(); ended != 0 {
				t.Errorf("%d subscriptions were ended", ended)
			}
		})
	}
}

// sequence is a subscriber that takes everything.
type sequence struct{ carrier *carrier }

func newSequence(t testing.TB, h *hub.Hub, name string) *sequence {
	c := newCarrier(t, open, false)
	subscribe(t, c.connect(h, client(name)), hub.SubscribeRequest{Channel: "stream:x"})
	return &sequence{c}
}

// checkEachOnce checks that what each publisher published is there once, in its order.
func checkEachOnce(t *testing.T, frames []frame, publishers, each int) {
	t.Helper()
	next := make([]int, publishers)
	for _, f := range frames {
		var p, i int
		if _, err := fmt.Sscanf(f.data, "%d/%d", &p, &i); err != nil {
			t.Fatalf("%q: %v", f.data, err)
		}
		if i != next[p] {
			t.Fatalf("publisher %d: %d came when %d was due", p, i, next[p])
		}
		next[p]++
	}
	for p, n := range next {
		if n != each {
			t.Fatalf("publisher %d: %d of %d came", p, n, each)
		}
	}
}

func checkSame(t *testing.T, i int, got, want []frame) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("subscriber %d got %d frames, the first %d", i, len(got), len(want))
	}
	for n := range got {
		if got[n] != want[n] {
			t.Fatalf("subscriber %d, frame %d: %v, the first got %v", i, n, got[n], want[n])
		}
	}
}

// Subscribers whose sessions are busy with other things all the time lose nothing either, though fan-out finds their lock taken.
func TestOrderOfBusySessions(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 1, Bytes: 1}), nil)
	ctx, stop := context.WithCancel(testwait.Context(t))
	defer stop()
	var readers []*sequence
	var busy sync.WaitGroup
	for i := range 4 {
		r := newSequence(t, h, fmt.Sprint(i))
		readers = append(readers, r)
		s := r.carrier.session.Load()
		busy.Go(func() {
			for ctx.Err() == nil {
				if err := s.Subscribe(ctx, hub.SubscribeRequest{Channel: "value:x"}, func(hub.Subscribed) error { return nil }); err == nil {
					s.Unsubscribe("value:x")
				}
			}
		})
		busy.Go(func() {
			for ctx.Err() == nil {
				s.Flush() // a carrier that says too often that it has room does no harm
				runtime.Gosched()
			}
		})
	}
	const total = 3000
	for i := range total {
		publish(t, h, "stream:x", push.Publication{Data: fmt.Appendf(nil, "0/%d", i)})
	}
	for _, r := range readers {
		testwait.True(t, "all have come", func() bool { return len(r.carrier.taken()) >= total })
	}
	stop()
	testwait.Return(t, busy.Wait)
	for _, r := range readers {
		checkEachOnce(t, r.carrier.taken(), 1, total)
	}
}

// A session that is subscribed to many busy channels holds up no other: the workers flush what it has left, alternating with other work.
func TestBusyChannelsInOneSession(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10_000}), &hub.Options{Workers: 1, SubscriptionsPerSession: -1})
	all := newCarrier(t, open, false)
	one := newCarrier(t, open, false)
	s := all.connect(h, client("all"))
	const channels, each = 200, 48
	for i := range channels {
		subscribe(t, s, hub.SubscribeRequest{Channel: fmt.Sprintf("stream:%d", i)})
	}
	subscribe(t, one.connect(h, client("one")), hub.SubscribeRequest{Channel: "stream:0"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range channels * each / 4 {
				publish(t, h, fmt.Sprintf("stream:%d", i%channels), push.Publication{Data: []byte("x")})
			}
		})
	}
	testwait.Return(t, wg.Wait)
	testwait.True(t, "all have come", func() bool { return len(all.taken()) == channels*each && len(one.taken()) == each })
	last := map[string]uint64{}
	for _, f := range all.taken() {
		if f.offset <= last[f.channel] {
			t.Fatalf("%s went from %d to %d", f.channel, last[f.channel], f.offset)
		}
		last[f.channel] = f.offset
	}
}

// Partitions have sequences of their own, and a channel belongs to one of them on every node.
func TestOrderAcrossPartitions(t *testing.T) {
	b := newBroker(t)
	ns := []hub.Namespace{{Namespace: broker.Namespace{Name: "stream", Mode: push.Stream, History: push.History{Size: 100}, Partitions: 5}}}
	hubs := []*hub.Hub{newHub(t, b, ns, nil), newHub(t, b, ns, nil)}
	carriers := make([]*carrier, 2)
	for i := range carriers {
		carriers[i] = newCarrier(t, open, false)
		s := carriers[i].connect(hubs[i], client(fmt.Sprint(i)))
		for n := range 20 {
			subscribe(t, s, hub.SubscribeRequest{Channel: fmt.Sprintf("stream:%d", n)})
		}
	}
	for i := range 400 {
		publish(t, hubs[i%2], fmt.Sprintf("stream:%d", i%20), push.Publication{Data: fmt.Append(nil, i)})
	}
	for _, c := range carriers {
		testwait.True(t, "all have come", func() bool { return len(c.taken()) == 400 })
		last := map[string]uint64{}
		for _, f := range c.taken() {
			if f.offset <= last[f.channel] {
				t.Fatalf("%s went from %d to %d", f.channel, last[f.channel], f.offset)
			}
			last[f.channel] = f.offset
		}
	}
}
