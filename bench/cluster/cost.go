package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// costShape is what a gateway has.
type costShape struct {
	clients, channels, each int
	hubs, links             int // links to each hub
}

// costShapes are the shapes of the trial cost. In each only one thing is more than in the one before, or in the first one.
func costShapes(clients int) []costShape {
	base := costShape{clients: max(clients/20, 1), channels: 100, each: 10, hubs: 2, links: 4}
	var all []costShape
	add := func(change func(*costShape)) {
		s := base
		change(&s)
		all = append(all, s)
	}
	add(func(*costShape) {})
	add(func(s *costShape) { s.clients *= 5 })
	add(func(s *costShape) { s.clients *= 20 })
	add(func(s *costShape) { s.channels = 1000 })
	add(func(s *costShape) { s.channels = 5000 })
	add(func(s *costShape) { s.links = 1 })
	add(func(s *costShape) { s.links = 16 })
	add(func(s *costShape) { s.hubs, s.links = 4, 16 })
	return all
}

// costRate is how many publications a second there are, in all channels together.
const costRate = 200

// costs is what a gateway needs.
type costs struct {
	idle   float64 // milliseconds of CPU a second without publications
	busy   float64 // milliseconds of CPU a second with them
	each   float64 // microseconds of CPU a delivery, idle time left out
	memory float64 // bytes, after a garbage collection
}

// cost measures what a gateway needs for clients, channels and links.
func cost(ctx context.Context, s *settings) (*report.Table, error) {
	t := &report.Table{
		Title: fmt.Sprintf("cost: a gateway with clients, the channels that they are subscribed to, and links; %d publications a second in all channels together", costRate),
		Head:  []string{"clients", "channels", "channels a client", "hubs", "links", "memory, MB", "idle, CPU ms/s", "with publications", "µs a delivery"},
		Note:  fmt.Sprintf("Of %d runs. Memory is resident, after a garbage collection, before there are publications. µs a delivery leaves out what the gateway uses when idle.", s.rounds),
	}
	shapes := costShapes(s.clients)
	if s.shapes > 0 {
		shapes = shapes[:min(s.shapes, len(shapes))]
	}
	for _, shape := range shapes {
		var all []costs
		for range s.rounds {
			c, err := s.costOnce(ctx, &shape)
			if err != nil {
				return nil, fmt.Errorf("%+v: %w", shape, err)
			}
			all = append(all, *c)
		}
		over := func(of func(*costs) float64) string { return measure.Over(all, of).String() }
		t.Add(strconv.Itoa(shape.clients), strconv.Itoa(shape.channels), strconv.Itoa(shape.each), strconv.Itoa(shape.hubs), strconv.Itoa(shape.links*shape.hubs),
			over(func(c *costs) float64 { return c.memory / 1e6 }), over(func(c *costs) float64 { return c.idle }), over(func(c *costs) float64 { return c.busy }),
			over(func(c *costs) float64 { return c.each }))
	}
	return t, nil
}

// costOnce is one run.
func (s *settings) costOnce(ctx context.Context, shape *costShape) (*costs, error) {
	plan := s.plan(0, "")
	plan.Hubs = shape.hubs
	c, err := cluster.Start(ctx, plan)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	gateway, err := c.JoinWith(shape.links)
	if err != nil {
		return nil, err
	}
	mine := *s
	mine.clients = shape.clients
	settle := time.Duration(s.seconds+6) * time.Second // longer than it takes to look at an idle gateway, so that publications begin afterwards
	r, err := mine.startUsers(ctx, c, "--shape", "market", "--channels", strconv.Itoa(shape.channels), "--each", strconv.Itoa(shape.each),
		"--rate", strconv.Itoa(costRate), "--duration", (time.Duration(s.seconds) * time.Second).String(), "--settle", settle.String(), "--server-pid", strconv.Itoa(gateway.PID()))
	if err != nil {
		return nil, err
	}
	out, err := mine.rest(ctx, c, r, gateway)
	if err != nil {
		r.stop()
		return nil, err
	}
	res, err := r.wait(0)
	if err != nil {
		return nil, err
	}
	seconds := float64(s.seconds)
	out.busy = res.Server.CPU * 1e3 / seconds
	out.each = (out.busy - out.idle) * 1e3 * seconds / float64(res.Deliveries.Received)
	return out, nil
}

// rest measures a gateway before there are publications.
func (s *settings) rest(ctx context.Context, c *cluster.Cluster, r *running, gateway *cluster.Member) (*costs, error) {
	if err := r.connected(ctx, c, s.clients); err != nil {
		return nil, err
	}
	for range 3 {
		if _, err := gateway.Get("/debug/pprof/heap?debug=1&gc=1"); err != nil {
			return nil, err
		}
	}
	resident, err := child.Resident(gateway.PID())
	if err != nil {
		return nil, err
	}
	before, err := child.CPU(gateway.PID())
	if err != nil {
		return nil, err
	}
	if err := load.Pause(ctx, time.Duration(s.seconds)*time.Second); err != nil {
		return nil, err
	}
	after, err := child.CPU(gateway.PID())
	if err != nil {
		return nil, err
	}
	return &costs{idle: float64(after-before) / 1e6 / float64(s.seconds), memory: float64(resident)}, nil
}
