package main_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// clusterConfig has several partitions, so that both hubs are used, but so few that every event of SSE has an id: clients resume behind the last event
// that they got. The history holds all of the traffic.
const clusterConfig = `
limits: {message_bytes: 1MiB}
ping: {interval: 60s, timeout: 50s}   # the machine of a test may be busy
namespaces:
  - {name: ticks, mode: stream, partitions: 4, history: {size: 200000, age: 1h, bytes: 512MiB}}
`

// TestClusterFaults: recorded traffic that is published at a gateway reaches clients of all gateways completely, in order and once, channel by channel,
// while hubs and gateways are killed and started again, links are cut, delayed, stalled and half open, and the broker is restarted. The clients of a
// gateway that is gone resume at another one, in the same epoch.
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	small := readTraffic(t, "cut", filepath.Join("..", "..", "testdata"), coinbase)
	clusterTrial{traffic: small, websockets: 50, events: 20, rounds: 1, speed: "max"}.run(t)
}

// clusterTrial is the replay of some traffic to subscribers of a cluster in which there are faults.
type clusterTrial struct {
	program    func() (string, error)
	traffic    *traffic
	websockets int
	events     int           // clients of SSE
	rounds     int           // how often each fault happens
	speed      string        // of the replay
	time       time.Duration // time limit; 0: feedTime
}

func (s clusterTrial) run(t *testing.T) {
	if s.program == nil {
		s.program = binary
	}
	path, err := s.program()
	must(t, err)
	c := startCluster(t, &clusterPlan{config: clusterConfig, isProxy: true, program: s.program})
	want := s.traffic.streams()
	clients := c.clients(s.websockets, s.events, want)
	var way meter
	count := 0 // of the first client's publications
	for _, a := range clients[0].checker.accounts {
		a.taken = func([]byte) {
			count++
			way.move(uint64(count)) //nolint:gosec // small
		}
	}
	for i, client := range clients {
		if i%7 == 6 { // some lose connections of their own, too
			client.cutter = &cutter{random: rand.New(rand.NewPCG(uint64(i), 2)), life: s.traffic.bytes / 2, meter: &way, gap: s.traffic.frames / 50}
		}
	}
	viewing := startClients(t, clients...)
	before := time.Now()
	show := startReplay(t, path, c.gateways[0].address, s.traffic, "--speed", s.speed, "--workers", "4", "--channel", "ticks:{symbol}")
	ctx, cancel := context.WithTimeout(context.Background(), max(feedTime, s.time))
	defer cancel()
	s.injectFaults(ctx, c, show, &way)
	show.await(ctx, s.traffic)
	way.end()
	viewing.awaitComplete()
	for _, n := range c.gateways {
		n.process.awaitReady() // the broker may have been killed last
		checkReplay(viewing, n.process, want)
	}
	for _, client := range clients {
		if client.checker.resumed() == 0 {
			t.Errorf("%s has not resumed", client.name)
		}
	}
	t.Logf("%d publications to %d clients in %v; %d cuts, %d outages of gateways", s.traffic.frames, len(clients),
		time.Since(before).Round(time.Millisecond), viewing.cuts(), c.outages.number())
}

// injectFaults has each fault happen in the course of the traffic. What a fault has brought down is up again before the next fault.
func (s clusterTrial) injectFaults(ctx context.Context, c *testCluster, show *replayProcess, way *meter) {
	faults := c.faults()
	steps := s.rounds*len(faults)*2 + 1 // a fault begins at every other one, and ends at the next
	reach := func(step int) {
		if !way.reach(ctx, s.traffic.frames*step/steps) {
			c.t.Fatalf("the traffic does not come to step %d of %d:\n%s", step, steps, show.stderr)
		}
	}
	step := 0
	for range s.rounds {
		for _, f := range faults {
			step++
			reach(step)
			began := time.Now()
			f.begin()
			step++
			if !f.isStop {
				reach(step)
			}
			if f.end != nil {
				f.end()
			}
			c.t.Logf("%s: %v", f.name, time.Since(began).Round(time.Millisecond))
		}
	}
}

// clusterFault is something that happens to a cluster. It ends after some more publications, or, because there are none while it lasts, at once.
type clusterFault struct {
	name   string
	begin  func()
	end    func() // nil: it ends by itself
	isStop bool   // no publication reaches the clients until the end
}

// faults returns all kinds of faults.
func (c *testCluster) faults() []clusterFault {
	hubs, gateways := c.hubs, c.gateways
	all := func(do func(*network.Proxy)) func() {
		return func() {
			for _, h := range hubs {
				do(h.proxy)
			}
		}
	}
	slow := network.Way{Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond}
	conditions := func(now network.Conditions) func() {
		return all(func(p *network.Proxy) { must(c.t, p.SetConditions(now)) })
	}
	refused := func() { // before the broker is started again
		testwait.True(c.t, "a publication is refused", func() bool { return isBusy(gateways[1].try("publish", `{"channel":"ticks:other","data":1}`)) })
		c.nats.start()
	}
	return []clusterFault{
		{name: "all links are cut", begin: all(func(p *network.Proxy) { p.Reset(1) })},
		{name: "links are slow", begin: conditions(network.Conditions{Up: slow, Down: slow}), end: conditions(network.Conditions{})},
		{name: "a hub is killed", begin: hubs[0].kill, end: hubs[0].start},
		{name: "half of the links are half open", begin: all(func(p *network.Proxy) { p.HalfOpen(0.5) })},
		{name: "the gateway of the publisher is killed", begin: func() { c.killGateway(gateways[0]) }, end: gateways[0].start, isStop: true},
		{name: "the links to a hub are silent", begin: func() { hubs[1].proxy.Stall(1) }, end: hubs[1].proxy.Resume},
		{name: "the other gateway is killed", begin: func() { c.killGateway(gateways[1]) }, end: gateways[1].start},
		{name: "the other hub is killed", begin: hubs[1].kill, end: hubs[1].start},
		{name: "all hubs are killed", begin: func() { hubs[0].kill(); hubs[1].kill() }, end: func() { hubs[0].start(); hubs[1].start() }, isStop: true},
		// The last one, because the publisher may be far ahead of the clients afterwards.
		{name: "the broker is killed", begin: c.nats.kill, end: refused, isStop: true},
	}
}
