package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/report"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// The set-ups of the cell called tiers: servers that clients connect to, and what is behind them.
const (
	limitEach = "c"        // a loop in C each, which all are published to: the limit
	hubsEach  = "hub-nats" // a plain hub each, connected by core NATS
	nodesEach = "sluice"   // a node with the role all each, and a NATS server with JetStream
	gateways  = "gateways" // a gateway each, two hubs behind them, and a NATS server with JetStream
)

// tierSetups are the set-ups in the order of the table.
func tierSetups() []string { return []string{limitEach, hubsEach, nodesEach, gateways} }

// tierSizes are how many servers the subscribers are at, and how many are at each if cells of many have so many.
func tierSizes(conns int) [][2]int { return [][2]int{{4, max(conns*3/2, 1)}, {5, max(conns*8/5, 1)}} }

const tierHubs = 2

// tierConfig is config for nodes that are not alone. A node admits more clients than it would by itself on a machine that it shares with so many others.
const tierConfig = `
auth: {anonymous: true}
limits: {commands_per_session: 0, commands_per_address: 0, sessions: 18000}
namespaces:
  - {name: ticks, partitions: 4, history: {size: 100, age: 5m}, allow: {subscribe: [anonymous], publish: [anonymous], history: [], presence: []}}
`

// tierSample is one measurement of the cell called tiers.
type tierSample struct {
	Setup       string          `json:"setup"`
	Servers     int             `json:"servers"`
	Subscribers int             `json:"subscribers"`
	Round       int             `json:"round"`
	Front       float64         `json:"front"` // CPU of the servers that clients connect to, in µs a delivery
	Hubs        float64         `json:"hubs"`  // of the hubs behind them, in milliseconds a second
	NATS        float64         `json:"nats"`  // of the NATS server, likewise
	All         float64         `json:"all"`   // of all together, in µs a delivery
	Last        float64         `json:"last"`  // median of the milliseconds until the last of all subscribers had a publication
	Worst       float64         `json:"worst"` // and the most
	Latency     measure.Latency `json:"latency_ns"`
	Resident    int64           `json:"resident"` // bytes of the servers that clients connect to
}

// climb measures the set-ups in each size in turn, round after round.
func climb(ctx context.Context, b *load.Bench, c *cell, sluice string) ([]tierSample, error) {
	programs, remove, err := cluster.Build(ctx, sluice)
	if err != nil {
		return nil, err
	}
	defer remove()
	setups := tierSetups()
	var all []tierSample
	for _, size := range tierSizes(c.Conns) {
		for round := range b.Rounds {
			for i := range setups {
				w := c.Work
				w.Conns = size[1]
				t := &tierRun{b: b, w: &w, programs: programs, setup: setups[(round+i)%len(setups)]}
				b.Say(&w, fmt.Sprintf("%d servers, round %d of %d, %s", size[0], round+1, b.Rounds, t.setup))
				s, err := t.run(ctx, size[0], b.Window*time.Duration(c.windows))
				if err != nil {
					return nil, fmt.Errorf("cell %s, %d servers, %s: %w", c.Name, size[0], t.setup, err)
				}
				s.Round = round + 1
				all = append(all, s)
			}
		}
	}
	b.Say(&c.Work, "")
	return all, nil
}

// tierRun is a set-up while it is measured.
type tierRun struct {
	b        *load.Bench
	w        *load.Work
	programs *cluster.Programs
	setup    string

	front      []tierServer
	hubs, nats []int // the numbers of processes
	clients    []*child.Process
	stops      []func() error // what ends everything, in reverse order
}

// tierServer is a server that clients connect to.
type tierServer struct {
	addr string
	pid  int
}

// run starts everything, subscribes w.Conns clients at each of n servers, and measures for d.
func (t *tierRun) run(ctx context.Context, n int, d time.Duration) (s tierSample, err error) {
	defer func() {
		for _, stop := range slices.Backward(t.stops) {
			err = errors.Join(err, stop())
		}
	}()
	if err := t.start(ctx, n); err != nil {
		return s, err
	}
	if err := t.subscribe(ctx); err != nil {
		return s, err
	}
	if _, err := t.publish(max(d/5, time.Millisecond)); err != nil { // until buffers and pools are warm
		return s, err
	}
	before, err := t.cpu()
	if err != nil {
		return s, err
	}
	got, err := t.publish(d)
	if err != nil {
		return s, err
	}
	after, err := t.cpu()
	if err != nil {
		return s, err
	}
	return t.sum(got, before, after)
}

// start starts the servers.
func (t *tierRun) start(ctx context.Context, n int) error {
	switch t.setup {
	case gateways:
		c, err := cluster.Start(ctx, &cluster.Plan{Programs: t.programs, Config: tierConfig, Hubs: tierHubs, Gateways: n})
		if err != nil {
			return err
		}
		t.stops = append(t.stops, func() error { c.Stop(); return nil })
		t.nats = []int{c.NATS.PID()}
		for _, m := range c.Hubs {
			t.hubs = append(t.hubs, m.PID())
		}
		for _, m := range c.Gateways {
			t.front = append(t.front, tierServer{m.Public, m.PID()})
		}
		return nil
	case limitEach:
		return t.startServers(ctx, n, oneThread)
	default:
	}
	nats, err := cluster.StartNATS(ctx, t.programs.NATS)
	if err != nil {
		return err
	}
	t.stops = append(t.stops, func() error { nats.Stop(); return nil })
	t.nats = []int{nats.PID()}
	if t.setup == hubsEach {
		return t.startServers(ctx, n, plainHub, "-bus", nats.Addr)
	}
	for range n {
		m, err := node.Start(t.programs.Sluice, tierConfig+fmt.Sprintf("broker: {kind: nats, nats: {url: \"nats://%s\"}}\n", nats.Addr))
		if err != nil {
			return err
		}
		t.stops = append(t.stops, func() error { m.Stop(); return nil })
		t.front = append(t.front, tierServer{m.Public, m.PID()})
	}
	return nil
}

// startServers starts servers that this bench has.
func (t *tierRun) startServers(ctx context.Context, n int, name string, args ...string) error {
	w := *t.w
	w.Args.Go = args
	for range n {
		var at server.Address
		p, err := t.b.Start(ctx, &w, name, &at)
		if err != nil {
			return err
		}
		t.stops = append(t.stops, p.Stop)
		t.front = append(t.front, tierServer{at.Addr, p.PID()})
	}
	return nil
}

// subscribe starts a client for each server, which subscribes.
func (t *tierRun) subscribe(ctx context.Context) error {
	dialect := dialects()[sluiceNATS]
	if t.setup == limitEach || t.setup == hubsEach {
		dialect = dialects()[plainHub]
	}
	for _, s := range t.front {
		_, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		p, err := child.Start(ctx, nil, t.b.Programs.Client, port, dialect, fmt.Sprint(t.w.Size), "1", "1")
		if err != nil {
			return err
		}
		t.stops = append(t.stops, p.Stop)
		t.clients = append(t.clients, p)
		if err := p.Ask(&struct{}{}, "connect %d", t.w.Conns); err != nil {
			return err
		}
	}
	return nil
}

// shared is what one client saw of publications that all got.
type shared struct {
	load.Load
	Whole []int64 `json:"whole"` // for each publication: nanoseconds until the last subscriber had it
}

// publish publishes for d, through the first server, or, if servers do not know each other, through each, and returns what each client saw.
func (t *tierRun) publish(d time.Duration) ([]shared, error) {
	const ahead = 200 * time.Millisecond // until all clients know
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	const patience = 20 * time.Second
	got, errs := make([]shared, len(t.clients)), make([]error, len(t.clients))
	var running sync.WaitGroup
	for i, client := range t.clients {
		leads := 0
		if i == 0 || t.setup == limitEach {
			leads = 1
		}
		running.Go(func() {
			errs[i] = client.Ask(&got[i], "share %d %d %d %d %d", leads, d.Milliseconds(), t.w.Rate, patience.Milliseconds(), now.Nano()+ahead.Nanoseconds())
			if errs[i] == nil {
				errs[i] = got[i].Wrong()
			}
		})
	}
	running.Wait()
	return got, errors.Join(errs...)
}

// tierCPU is how much CPU the processes have used, in nanoseconds.
type tierCPU struct{ front, hubs, nats int64 }

func (t *tierRun) cpu() (c tierCPU, err error) {
	add := func(to *int64, pid int) {
		used, e := child.CPU(pid)
		*to += used
		err = errors.Join(err, e)
	}
	for _, s := range t.front {
		add(&c.front, s.pid)
	}
	for _, pid := range t.hubs {
		add(&c.hubs, pid)
	}
	for _, pid := range t.nats {
		add(&c.nats, pid)
	}
	return c, err
}

// sum puts together what the clients saw and what it cost.
func (t *tierRun) sum(got []shared, before, after tierCPU) (tierSample, error) {
	s := tierSample{Setup: t.setup, Servers: len(t.front), Subscribers: len(t.front) * t.w.Conns}
	lasts, latencies, err := together(got)
	if err != nil {
		return s, err
	}
	deliveries := float64(s.Subscribers * len(lasts))
	if n := latencies.Total(); n != int64(deliveries) {
		return s, fmt.Errorf("%d deliveries of %.0f", n, deliveries)
	}
	front, hubs, nats := float64(after.front-before.front), float64(after.hubs-before.hubs), float64(after.nats-before.nats)
	seconds := float64(len(lasts)) / float64(t.w.Rate)
	s.Front, s.Hubs, s.NATS = front/1e3/deliveries, hubs/1e6/seconds, nats/1e6/seconds
	s.All = (front + hubs + nats) / 1e3 / deliveries
	spread := measure.NewSpread(lasts)
	s.Last, s.Worst, s.Latency = spread.Median, spread.Max, latencies.Latency()
	for _, one := range t.front {
		resident, err := child.Resident(one.pid)
		if err != nil {
			return s, err
		}
		s.Resident += resident
	}
	return s, nil
}

// together returns, for each publication, the milliseconds until the last of all subscribers had it, and all latencies.
func together(got []shared) (lasts []float64, latencies *measure.Histogram, err error) {
	latencies = new(measure.Histogram)
	for i := range got {
		g := &got[i]
		if lasts == nil {
			lasts = make([]float64, len(g.Whole))
		}
		if len(g.Whole) != len(lasts) || len(lasts) == 0 {
			return nil, nil, fmt.Errorf("a client saw %d publications, another one %d", len(g.Whole), len(lasts))
		}
		for k, ns := range g.Whole {
			lasts[k] = max(lasts[k], float64(ns)/1e6)
		}
		latencies.Add(&g.All)
	}
	return lasts, latencies, nil
}

// tierTable is the table of the cell called tiers.
func tierTable(c *cell, all []tierSample) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head: []string{
			"subscribers", "set-up", "CPU µs a delivery, all processes", "× limit", "front", "last ms", "worst", "p99 ms", "hubs, CPU ms/s", "NATS", "MB",
		},
		Note: "c: a loop in C at each server, published to each. hub-nats: plain hubs and core NATS. sluice: nodes with the role all and JetStream. gateways: gateways, " +
			fmt.Sprint(tierHubs) + " hubs and JetStream. Elsewhere than in C the publisher is at the first server. last: until the last of all subscribers had a publication. front and MB: of the servers that clients connect to. " +
			"Nothing was lost.",
	}
	for _, size := range tierSizes(c.Conns) {
		limit := measure.Over(tiersOf(all, size[0], limitEach), func(s *tierSample) float64 { return s.All })
		for _, setup := range tierSetups() {
			mine := tiersOf(all, size[0], setup)
			if len(mine) == 0 {
				continue
			}
			over := func(of func(*tierSample) float64) measure.Spread { return measure.Over(mine, of) }
			cpu := over(func(s *tierSample) float64 { return s.All })
			t.Add(
				fmt.Sprintf("%d at %d", mine[0].Subscribers, size[0]), setup, cpu.String(), measure.Number(cpu.Median/limit.Median),
				over(func(s *tierSample) float64 { return s.Front }).String(),
				over(func(s *tierSample) float64 { return s.Last }).String(), over(func(s *tierSample) float64 { return s.Worst }).String(),
				over(func(s *tierSample) float64 { return float64(s.Latency.P99) / 1e6 }).String(),
				over(func(s *tierSample) float64 { return s.Hubs }).String(), over(func(s *tierSample) float64 { return s.NATS }).String(),
				over(func(s *tierSample) float64 { return float64(s.Resident) / 1e6 }).String(),
			)
		}
	}
	return t
}

// tiersOf returns the samples of a set-up with so many servers.
func tiersOf(all []tierSample, servers int, setup string) []tierSample {
	return slices.DeleteFunc(slices.Clone(all), func(s tierSample) bool { return s.Servers != servers || s.Setup != setup })
}
