package laws_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/pushtest"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// linkedHub is a hub of which the nodes know by links. It serves the broker that all hubs share, or what a hub of package hub has of it.
type linkedHub struct {
	options hublink.Options
	seed    uint64
	hub     *hub.Hub // nil if the broker is served as it is
	source  broker.Broker
	faulty  *pushtest.Faulty // the shared broker as the hub sees it
	address string
	server  *hublink.Server
	served  chan error
	network *network.Proxy // between the nodes and the hub
}

// onLinks starts the nodes as gateways: each is linked to some hubs, which share a broker in memory.
func (w *cluster) onLinks(t *testing.T, hubs int, faults []fault) {
	// A hub that is away holds up a publisher only if a gateway still follows it.
	w.faults, w.faulty = faults, pushtest.NewFaulty(memory.New(&memory.Options{Queue: 1 << 14}))
	t.Cleanup(func() { must(t, w.faulty.Close()) })
	w.loads.Broker = w.faulty
	for range hubs {
		h := &linkedHub{address: "127.0.0.1:0", options: hublink.Options{Secret: "laws", QueueBytes: []int{4 << 20, 20_000, 4_000}[w.seed%3]}}
		h.seed, h.faulty = w.seed, pushtest.NewFaulty(&w.loads)
		must(t, h.serve())
		var err error
		h.network, err = network.Listen("", h.address, network.Conditions{})
		must(t, err)
		t.Cleanup(func() {
			must(t, h.network.Close())
			h.stop()
		})
		w.hubs = append(w.hubs, h)
	}
	w.placement.without(nil, w.hubs)
	w.connect = func(context.Context) (broker.Broker, error) {
		return link.New(&link.Options{Placement: &w.placement, Secret: "laws", Timeout: *patience})
	}
	w.startNodes(t)
}

// placement is the nodes' list of hubs, which changes.
type placement struct {
	mu      sync.Mutex // guards the following
	hubs    link.Fixed
	changed chan struct{}
}

// without has the placement name all hubs except one; nil: all.
func (p *placement) without(away *linkedHub, hubs []*linkedHub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hubs = nil
	for _, h := range hubs {
		if h != away {
			p.hubs = append(p.hubs, h.network.Addr().String())
		}
	}
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// Hubs implements link.Placement.
func (p *placement) Hubs(part broker.Partition) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hubs.Hubs(part)
}

// Changed implements link.Placement.
func (p *placement) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (h *linkedHub) serve() error {
	ln, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	h.address = ln.Addr().String()
	h.source = h.faulty
	if h.seed%2 == 0 {
		if h.hub, err = hub.New(context.Background(), h.faulty, namespaces(false, h.seed), nil); err != nil {
			return errors.Join(err, ln.Close())
		}
		h.source = h.hub.Source()
	}
	h.server, h.served = hublink.NewServer(h.source, &h.options), make(chan error, 1)
	server, served := h.server, h.served
	go func() { served <- server.Serve(ln) }()
	return nil
}

func (h *linkedHub) stop() {
	_ = h.server.Close()
	<-h.served
	if h.hub != nil {
		_, _ = h.source.Close(), h.hub.Close()
	}
}

// breakLinks resets some connections between nodes and hubs.
func (w *cluster) breakLinks(rng *rand.Rand) {
	if rng.IntN(8) == 0 {
		w.hubs[rng.IntN(len(w.hubs))].network.Reset(float64(1+rng.IntN(2)) / 2)
		w.linkCuts.Add(1)
	}
}

// slowLinks has some connections between nodes and hubs pass nothing on for a while.
func (w *cluster) slowLinks(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		n := w.hubs[rng.IntN(len(w.hubs))].network
		n.Stall(float64(1+rng.IntN(2)) / 2)
		pause(w.ctx, time.Duration(rng.IntN(50))*time.Millisecond)
		n.Resume()
		w.linkStalls.Add(1)
	}
}

// restartHub ends a hub, so that the nodes go to the others, and starts it again.
func (w *cluster) restartHub(rng *rand.Rand) {
	if rng.IntN(20) != 0 {
		return
	}
	h := w.hubs[rng.IntN(len(w.hubs))]
	h.stop()
	if err := h.serve(); err != nil {
		w.t.Errorf("a hub does not start again: %v", err)
	}
	w.hubRestarts.Add(1)
}

// lagHub delays the publications of a partition for one of the hubs.
func (w *cluster) lagHub(rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		release := w.hubs[rng.IntN(len(w.hubs))].faulty.Hold(w.partition(rng))
		pause(w.ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		release()
		w.lags.Add(1)
	}
}

// moveHub has a hub leave: it hears of no publications any more, but can be reached, and then the placement does not name it any more. If a hub is away,
// it comes back.
func (w *cluster) moveHub(rng *rand.Rand) {
	if rng.IntN(4) != 0 {
		return
	}
	w.hubMoves.Add(1)
	if w.returnHub != nil {
		w.returnHub(rng.IntN(2) == 0)
		return
	}
	h := w.hubs[rng.IntN(len(w.hubs))]
	var releases []func()
	for mode := push.Stream; mode <= push.Table; mode++ {
		for i := range partitions {
			releases = append(releases, h.faulty.Hold(broker.Partition{Namespace: mode.String(), Index: i}))
		}
	}
	pause(w.ctx, time.Duration(rng.IntN(20))*time.Millisecond)
	w.placement.without(h, w.hubs)
	w.returnHub = func(isNamedFirst bool) { // a hub that is named before it hears of publications lags a little
		w.returnHub = nil
		if isNamedFirst {
			w.placement.without(nil, w.hubs)
			pause(w.ctx, time.Duration(rng.IntN(10))*time.Millisecond)
		}
		for _, release := range releases {
			release()
		}
		w.placement.without(nil, w.hubs)
	}
}

// countedLoads is a broker that counts the loads of one channel that are under way.
type countedLoads struct {
	broker.Broker
	channel  string
	underWay atomic.Int64
}

// Load implements broker.Broker.
func (b *countedLoads) Load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	if channel == b.channel {
		b.underWay.Add(1)
		defer b.underWay.Add(-1)
	}
	return b.Broker.Load(ctx, channel, o, visit)
}

// flip publishes a row whose tag changes and changes back, while some links are cut. The tag changes back after a gateway has come back, and before its load
// is answered. So the gateway never sees the version between, but sees other rows that are newer than it.
func (w *cluster) flip(rng *rand.Rand) {
	n := w.flips.Add(1)
	put := func(key string, tag int64) {
		p := push.Publication{Key: key, Tags: map[string]string{"t": fmt.Sprint(tag % viewed)}, Data: fmt.Appendf(nil, `{"n":%d}`, rng.Uint32())}
		at, err := w.faulty.Publish(w.ctx, w.loads.channel, p, broker.PublishOptions{})
		if err != nil {
			w.t.Errorf("publishing to %s: %v", w.loads.channel, err)
			return
		}
		w.published.add(w.loads.channel, at, p)
	}
	key := fmt.Sprintf("flipped %d", n)
	put(key, n)
	pause(w.ctx, time.Duration(rng.IntN(5))*time.Millisecond)
	release := w.faulty.Block(pushtest.OpLoad)
	defer release()
	for _, h := range w.hubs {
		h.network.Reset(0.5)
	}
	put(key, n+1)
	for i := 0; i < 50 && w.loads.underWay.Load() == 0; i++ {
		pause(w.ctx, 2*time.Millisecond)
		put(fmt.Sprintf("other %d", i), int64(i))
	}
	put(key, n)
	put("last", n+1) // who sees it does not come back with a position from before the second change
}
