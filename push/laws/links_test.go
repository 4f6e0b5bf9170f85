package laws_test

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/pushtest"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// linkedHub is a hub of which the nodes know by links. It serves the broker that all hubs share.
type linkedHub struct {
	options hublink.Options
	address string
	server  *hublink.Server
	served  chan error
	network *network.Proxy // between the nodes and the hub
}

// onLinks starts the nodes as gateways: each is linked to two hubs, which share a broker in memory.
func (w *cluster) onLinks(t *testing.T, faults []fault) {
	w.faults, w.faulty = faults, pushtest.NewFaulty(memory.New(nil))
	t.Cleanup(func() { must(t, w.faulty.Close()) })
	var addresses []string
	for range 2 {
		h := &linkedHub{address: "127.0.0.1:0", options: hublink.Options{Secret: "laws", QueueBytes: []int{4 << 20, 20_000, 4_000}[w.seed%3]}}
		must(t, h.serve(w.faulty))
		var err error
		h.network, err = network.Listen("", h.address, network.Conditions{})
		must(t, err)
		t.Cleanup(func() {
			must(t, h.network.Close())
			h.stop()
		})
		w.hubs = append(w.hubs, h)
		addresses = append(addresses, h.network.Addr().String())
	}
	w.connect = func(context.Context) (broker.Broker, error) {
		return link.New(&link.Options{Placement: link.Fixed(addresses), Secret: "laws", Timeout: *patience})
	}
	w.startNodes(t)
}

func (h *linkedHub) serve(b broker.Broker) error {
	ln, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	h.address = ln.Addr().String()
	h.server, h.served = hublink.NewServer(b, &h.options), make(chan error, 1)
	server, served := h.server, h.served
	go func() { served <- server.Serve(ln) }()
	return nil
}

func (h *linkedHub) stop() {
	_ = h.server.Close()
	<-h.served
}

// breakLinks resets some connections between nodes and hubs.
func (w *cluster) breakLinks(rng *rand.Rand) {
	if rng.IntN(8) == 0 {
		w.hubs[rng.IntN(2)].network.Reset(float64(1+rng.IntN(2)) / 2)
		w.linkCuts.Add(1)
	}
}

// slowLinks has some connections between nodes and hubs pass nothing on for a while.
func (w *cluster) slowLinks(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		n := w.hubs[rng.IntN(2)].network
		n.Stall(float64(1+rng.IntN(2)) / 2)
		pause(w.ctx, time.Duration(rng.IntN(50))*time.Millisecond)
		n.Resume()
		w.linkStalls.Add(1)
	}
}

// restartHub ends a hub, so that the nodes go to the other one, and starts it again.
func (w *cluster) restartHub(rng *rand.Rand) {
	if rng.IntN(20) != 0 {
		return
	}
	h := w.hubs[rng.IntN(2)]
	h.stop()
	if err := h.serve(w.faulty); err != nil {
		w.t.Errorf("a hub does not start again: %v", err)
	}
	w.hubRestarts.Add(1)
}
