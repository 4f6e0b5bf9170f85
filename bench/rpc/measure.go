package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// cell is how many callers make calls over how many connections.
type cell struct {
	callers, conns int
	slow           int // more callers, of the slow method
}

// result is what a client says of a run.
type result struct {
	load.Load

	Errors int64  `json:"errors"`
	First  string `json:"first"` // error
}

// sample is one measurement of one server in one cell.
type sample struct {
	rate           float64 // calls a second
	server, client float64 // CPU microseconds a call
	latency        measure.Latency
	errors         int64
}

// limit is the programs in C, which only echo frames.
type limit struct{ programs *load.Programs }

func (l *limit) remove() {
	if l != nil {
		l.programs.Remove()
	}
}

// start starts a server and a client that is connected to it.
func (c *comparison) start(ctx context.Context, name string, cl cell) (srv, client *child.Process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	program, args := self, []string{"serve", "-server", name}
	if name == load.Limit {
		if c.limit == nil {
			programs, err := load.Compile("frames", "client")
			if err != nil {
				return nil, nil, err
			}
			c.limit = &limit{programs}
		}
		program, args = c.limit.programs.Server, []string{"echo"}
	}
	var at server.Address
	if srv, err = child.Start(ctx, &at, program, args...); err != nil {
		return nil, nil, err
	}
	if client, err = c.startClient(ctx, name, at.Addr, cl); err != nil {
		return nil, nil, errors.Join(err, srv.Stop())
	}
	return srv, client, nil
}

// startClient starts a client and has it connect.
func (c *comparison) startClient(ctx context.Context, name, addr string, cl cell) (*child.Process, error) {
	if name != load.Limit {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return child.Start(ctx, &struct{}{}, self, "serve", "client", "-server", name, "-addr", addr, "-callers", strconv.Itoa(cl.callers),
			"-slow", strconv.Itoa(cl.slow), "-conns", strconv.Itoa(cl.conns), "-size", strconv.Itoa(c.size))
	}
	p, err := child.Start(ctx, nil, c.limit.programs.Client, portOf(addr), "echo", strconv.Itoa(c.size))
	if err != nil {
		return nil, err
	}
	if err := p.Ask(&struct{}{}, "connect %d", cl.conns); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// sample measures one server in one cell.
func (c *comparison) sample(ctx context.Context, name string, cl cell) (s sample, err error) {
	srv, client, err := c.start(ctx, name, cl)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, client.Stop(), srv.Stop()) }()
	run := func(ms int64) (r result, err error) {
		if name == load.Limit {
			return r, client.Ask(&r.Load, "run %d 0 %d 0 0 0", ms, max(cl.callers/cl.conns, 1))
		}
		return r, client.Ask(&r, "run %d", ms)
	}
	if _, err := run(max(c.length.Milliseconds()/4, 1)); err != nil { // until buffers and pools are warm
		return sample{}, err
	}
	used := func() (server, caller int64, err error) {
		if server, err = child.CPU(srv.PID()); err == nil {
			caller, err = child.CPU(client.PID())
		}
		return server, caller, err
	}
	server0, client0, err := used()
	if err != nil {
		return sample{}, err
	}
	r, err := run(max(c.length.Milliseconds(), 1))
	if err != nil {
		return sample{}, err
	}
	server1, client1, err := used()
	switch {
	case err != nil:
		return sample{}, err
	case r.Errors > 0:
		c.say("%s: %d errors, the first: %s\n", name, r.Errors, r.First)
	case r.Messages == 0:
		return sample{}, errors.New("the client measured nothing")
	}
	n := float64(max(r.Messages, 1))
	return sample{
		rate: n / (float64(r.NS) / 1e9), server: float64(server1-server0) / 1e3 / n, client: float64(client1-client0) / 1e3 / n,
		latency: r.All.Latency(), errors: r.Errors,
	}, nil
}

// all measures servers in one cell, in turn, each round beginning with another one.
func (c *comparison) all(ctx context.Context, servers []string, cl cell) (map[string][]sample, error) {
	samples := make(map[string][]sample)
	for round := range c.rounds {
		for i := range servers {
			name := servers[(round+i)%len(servers)]
			c.say("\r%-79s\r", fmt.Sprintf("%d callers, %d connections: round %d of %d, %s", cl.callers, cl.conns, round+1, c.rounds, name))
			s, err := c.sample(ctx, name, cl)
			if err != nil {
				return nil, fmt.Errorf("%s, %d callers, %d connections: %w", name, cl.callers, cl.conns, err)
			}
			samples[name] = append(samples[name], s)
		}
	}
	c.say("\r%79s\r", "")
	return samples, nil
}

// echo is the part of that name.
func (c *comparison) echo(ctx context.Context, stdout io.Writer) error {
	for _, callers := range c.callers {
		for _, conns := range c.conns {
			var servers []string
			for _, name := range c.servers {
				if fits(name, conns) {
					servers = append(servers, name)
				}
			}
			if conns > callers || len(servers) == 0 {
				continue
			}
			samples, err := c.all(ctx, servers, cell{callers: callers, conns: conns})
			if err == nil {
				err = table(fmt.Sprintf("%d callers, %d connections, %d bytes", callers, conns, c.size), servers, samples).Markdown(stdout)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// The callers of part beside.
const slowCallers, fastCallers = 100, 10

// beside is the part of that name.
func (c *comparison) beside(ctx context.Context, stdout io.Writer) error {
	var servers []string
	for _, name := range c.servers {
		if hasSlow(name) {
			servers = append(servers, name)
		}
	}
	for _, slow := range []int{0, slowCallers} {
		samples, err := c.all(ctx, servers, cell{callers: fastCallers, conns: 1, slow: slow})
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%d callers of a fast method, %d of one that takes %v, 1 connection: the fast one", fastCallers, slow, slowness)
		if err := table(title, servers, samples).Markdown(stdout); err != nil {
			return err
		}
	}
	return nil
}

// table shows samples: medians, and in parentheses from where to where they reach.
func table(title string, servers []string, samples map[string][]sample) *report.Table {
	t := &report.Table{
		Title: title,
		Head:  []string{"server", "calls/s", "CPU µs a call, server", "client", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "errors"},
	}
	for _, name := range servers {
		all := samples[name]
		q := measure.NewQuantiles(all, func(s *sample) *measure.Latency { return &s.latency })
		var failed int64
		for i := range all {
			failed += all[i].errors
		}
		row := []string{
			name, measure.Over(all, func(s *sample) float64 { return s.rate }).String(), measure.Over(all, func(s *sample) float64 { return s.server }).String(),
			measure.Over(all, func(s *sample) float64 { return s.client }).String(),
		}
		t.Add(append(append(row, q.Cells()...), strconv.FormatInt(failed, 10))...)
	}
	return t
}

// say tells how it goes.
func (c *comparison) say(format string, args ...any) { _, _ = fmt.Fprintf(c.progress, format, args...) }
