package hub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

// The laws of order, of no silent loss and of convergence, through two hubs on one broker: random publishers, clients that read at
// random, stall, are cut and come back elsewhere, channels that are given up and loaded again, and troubles of the broker.
func TestLaws(t *testing.T) {
	troubles := []struct {
		name    string
		history push.History
		trouble func(*lawWorld, *rand.Rand)
	}{
		{"calm", push.History{Size: 2000}, func(*lawWorld, *rand.Rand) {}},
		{"short history", push.History{Size: 8}, (*lawWorld).sweep},
		{"reloads", push.History{Size: 100}, (*lawWorld).sweep},
		{"ageing", push.History{Age: 500 * time.Millisecond}, (*lawWorld).age},
		{"gaps", push.History{Size: 100}, (*lawWorld).gap},
		{"lives", push.History{Size: 100}, (*lawWorld).renew},
		{"everything", push.History{Size: 50, Age: time.Second}, (*lawWorld).anything},
	}
	var shorts, told atomic.Int64 // runs with a short history, and how many losses were told in them
	t.Cleanup(func() {
		if shorts.Load() > 1 && told.Load() == 0 {
			t.Error("nothing was ever lost")
		}
	})
	for i, tt := range troubles {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				t.Parallel()
				w := newLawWorld(t, tt.history)
				lost := w.run(tt.trouble, seed+uint64(i)<<8)
				if tt.name == "short history" {
					shorts.Add(1)
					told.Add(int64(lost))
				}
			})
		}
	}
}

// lawWorld is the hubs, the clients and the truth.
type lawWorld struct {
	t     *testing.T
	ctx   context.Context
	clock *pushtest.Clock
	rig   *rig
	hubs  []*hub.Hub
	truth *truth
	names []string
}

func newLawWorld(t *testing.T, history push.History) *lawWorld {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // on an idle machine it takes seconds
	t.Cleanup(cancel)
	w := &lawWorld{t: t, ctx: ctx, clock: pushtest.NewClock(time.Now()), truth: newTruth()}
	w.rig = newRig(t, &memory.Options{Now: w.clock.Now})
	for range 2 {
		w.hubs = append(w.hubs, newHub(t, w.rig, lawSpaces(history), &hub.Options{Linger: -1, Workers: 2}))
	}
	w.names = []string{"stream:a", "stream:b", "value:a", "table:a", "table:b"}
	return w
}

func (w *lawWorld) sweep(rng *rand.Rand) { w.hubs[rng.IntN(2)].Sweep(w.clock.Now()) }

func (w *lawWorld) age(rng *rand.Rand) {
	w.clock.Advance(time.Duration(rng.IntN(200)) * time.Millisecond)
	w.sweep(rng)
}

func (w *lawWorld) gap(rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		w.rig.lose()
	}
	w.sweep(rng)
}

func (w *lawWorld) renew(rng *rand.Rand) {
	if rng.IntN(8) == 0 {
		w.rig.renew()
	}
}

func (w *lawWorld) anything(rng *rand.Rand) {
	switch rng.IntN(3) {
	case 0:
		w.age(rng)
	case 1:
		w.gap(rng)
	case 2:
		w.renew(rng)
	}
}

// run starts all clients and publishers, and in the end compares what came with what was published. It returns how many entries clients were told to
// have lost.
func (w *lawWorld) run(trouble func(*lawWorld, *rand.Rand), seed uint64) (lost int) {
	var clients []*lawClient
	for i := range 8 {
		clients = append(clients, newLawClient(w, i, rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	for round := range uint64(3) {
		var publishers, others sync.WaitGroup
		done := make(chan struct{})
		for i := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed<<8|round, 100+i))
			publishers.Go(func() { w.publish(rng, 400) })
		}
		for _, c := range clients {
			others.Go(func() { c.live(done) })
		}
		others.Go(func() {
			rng := rand.New(rand.NewPCG(seed<<8|round, 200))
			for !isClosed(done) {
				trouble(w, rng)
				w.pause(rng)
			}
		})
		testwait.Return(w.t, publishers.Wait)
		close(done)
		testwait.Return(w.t, others.Wait)
		w.rig.keep() // a client is told of a loss only with the next publication
		for _, c := range clients {
			c.calm()
		}
	}
	fresh, recovered, ended, differences, unknown := 0, 0, 0, 0, 0
	for _, c := range clients {
		c.mu.Lock() // what was published for the last client to be level may still come to the others
		defer c.mu.Unlock()
		for _, f := range c.feeds {
			fresh, recovered, ended, differences = fresh+f.fresh, recovered+f.recovered, ended+f.ended, differences+f.differences
			lost, unknown = lost+f.lost, unknown+f.unknown
			must(w.t, f.whole(w.truth))
		}
	}
	w.t.Logf("seed %d: %d fresh, %d recovered, %d ended, %d differences, %d lost and %d times nobody knows",
		seed, fresh, recovered, ended, differences, lost, unknown)
	if recovered == 0 || differences == 0 {
		w.t.Error("nothing was ever recovered, or sent as a difference")
	}
	return lost
}

// lawSpaces are the namespaces of the law test.
func lawSpaces(history push.History) []hub.Namespace {
	out := spaces(history)
	for i := range out {
		out[i].Deltas = []push.Delta{push.Fossil, push.Merge}
	}
	return out
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pause lets others run for a moment of random length.
func (w *lawWorld) pause(rng *rand.Rand) {
	select {
	case <-time.After(time.Duration(rng.IntN(2000)) * time.Microsecond):
	case <-w.ctx.Done():
	}
}

// publish publishes n times to random channels.
func (w *lawWorld) publish(rng *rand.Rand, n int) {
	for i := range n {
		name := w.names[rng.IntN(len(w.names))]
		p := push.Publication{Data: fmt.Appendf(nil, `{"same":"each and every time","n":%d,"m":%d}`, i, rng.Uint32())}
		if mode := push.Namespace(name); mode != "stream" {
			if mode == "table" {
				p.Key = fmt.Sprintf("k%d", rng.IntN(300))
			}
			switch n := rng.IntN(160); {
			case n == 0:
				p = push.Publication{Op: push.Clear}
			case n < 20:
				p = push.Publication{Key: p.Key, Op: push.Remove}
			}
		}
		if !w.put(w.hubs[rng.IntN(2)], name, p) {
			return
		}
		if rng.IntN(30) == 0 {
			w.pause(rng)
		}
	}
}

// put publishes once, and reports whether that went well.
func (w *lawWorld) put(h *hub.Hub, name string, p push.Publication) bool {
	at, err := h.Publish(w.ctx, name, p, "")
	for errors.Is(err, push.ErrInternal) && w.ctx.Err() == nil { // the store was just replaced: nothing was kept
		at, err = h.Publish(w.ctx, name, p, "")
	}
	if err != nil {
		w.t.Error(err)
		return false
	}
	w.truth.add(name, at, p)
	return true
}

// epochOf returns the present epoch of a channel's partition at the broker.
func (w *lawWorld) epochOf(name string) string {
	h, err := w.rig.Load(w.ctx, name, broker.LoadOptions{}, func(broker.Message) error { return nil })
	must(w.t, err)
	return h.Epoch
}
