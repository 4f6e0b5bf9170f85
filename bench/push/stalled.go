package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// stalledShare of the clients of the cell called stalled read nothing for a while: one in so many.
const stalledShare = 10

// The phases of the cell called stalled.
var phases = [...]string{"before", "while they stall", "afterwards"}

// stalling is how one server fared while some clients did not read.
type stalling struct {
	Server string                `json:"server"`
	Phases [len(phases)]hardship `json:"phases"`
}

// hardship is one phase of it. Latency and Rate are of the clients that read. Memory is in bytes.
type hardship struct {
	Latency   measure.Latency `json:"latency_ns"`
	Rate      float64         `json:"rate"`      // deliveries a second
	CPU       float64         `json:"cpu"`       // µs for each of them
	Resident  int64           `json:"resident"`  // memory of the process at the end of the phase
	Collected int64           `json:"collected"` // the same after garbage was collected and what is not used was given back
	Sockets   int64           `json:"sockets"`   // the kernel's memory for TCP, of the whole machine, more than before the first phase
}

// spells are how long is measured while clients stall, and before that and after it.
type spells struct{ stall, around time.Duration }

// stallings measures one server after the other.
func stallings(ctx context.Context, b *load.Bench, c *cell, servers []string) ([]stalling, error) {
	var all []stalling
	for _, name := range servers {
		s := stalling{Server: name}
		err := b.With(ctx, &c.Work, name, func(p *load.Pair) error { return s.measure(ctx, b, c, p) })
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	b.Say(&c.Work, "")
	return all, nil
}

// measure is the three phases of one server.
func (s *stalling) measure(ctx context.Context, b *load.Bench, c *cell, p *load.Pair) error {
	m := &scales{pair: p, rest: b.Rest}
	if err := p.Narrow(stalledShare); err != nil {
		return err
	}
	if err := m.warm(ctx, &c.Work, c.Conns); err != nil {
		return err
	}
	b.Say(&c.Work, s.Server+", until all is kept that is to be")
	if _, err := p.Run(&c.Work, c.spells.around); err != nil {
		return err
	}
	for i, length := range [...]time.Duration{c.spells.around, c.spells.stall, c.spells.around} {
		b.Say(&c.Work, s.Server+", "+phases[i])
		var err error
		switch i {
		case 1:
			err = p.Stall()
		case 2:
			err = p.Unstall()
		}
		if err == nil {
			s.Phases[i], err = m.endure(ctx, &c.Work, length)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", phases[i], err)
		}
	}
	return nil
}

// stalled is how many clients stall.
func (c *cell) stalled() int { return c.Conns / stalledShare }

// endure measures one phase.
func (m *scales) endure(ctx context.Context, w *load.Work, length time.Duration) (hardship, error) {
	var before, after server.Status
	if err := m.pair.Server.Ask(&before, "stats"); err != nil {
		return hardship{}, err
	}
	l, err := m.pair.Run(w, length)
	if err != nil {
		return hardship{}, err
	}
	if err := m.pair.Server.Ask(&after, "stats"); err != nil {
		return hardship{}, err
	}
	s, err := load.NewSample(l, &before, &after)
	if err != nil {
		return hardship{}, err
	}
	now, err := m.weigh(ctx)
	return hardship{
		Latency: s.Latency, Rate: s.Rate, CPU: s.CPU,
		Resident: now.resident, Collected: now.collected, Sockets: max(now.sockets-m.empty.sockets, 0),
	}, err
}

// stalledTable is the table of the cell called stalled.
func stalledTable(c *cell, all []stalling) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head: []string{
			"server", "", "MB", "MB collected", "MB of sockets", "p50 ms of who reads", "p99", "p99.9", "max", "1000 deliveries/s", "CPU s/1M",
		},
		Note: "Memory at the end of each phase: of the process, of it after garbage collections, and the kernel's for TCP, both ends, more " +
			"than before the first. Who stalls has a receive buffer of 8 KiB. Nothing that clients read was lost.",
	}
	for _, s := range all {
		for i, h := range s.Phases {
			mb := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
			ms := func(ns int64) string { return fmt.Sprintf("%.1f", float64(ns)/1e6) }
			t.Add(s.Server, phases[i], mb(h.Resident), mb(h.Collected), mb(h.Sockets), ms(h.Latency.P50), ms(h.Latency.P99), ms(h.Latency.P999),
				ms(h.Latency.Max), fmt.Sprintf("%.1f", h.Rate/1e3), measure.Number(h.CPU))
		}
	}
	return t
}
