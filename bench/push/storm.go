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

// storm is what it was like, once, when all clients of a server were cut at the same time.
type storm struct {
	Server string  `json:"server"`
	Round  int     `json:"round"`
	Back   float64 `json:"back"`   // milliseconds until all clients were connected and subscribed again
	Caught float64 `json:"caught"` // and until they had all that was published meanwhile
	CPU    float64 `json:"cpu"`    // seconds of the server's process in the whole run
	P99    float64 `json:"p99"`    // milliseconds from when a publication was due until a client had it, of the whole run
}

// outlast measures servers in turn, round after round.
func outlast(ctx context.Context, b *load.Bench, c *cell, servers []string) ([]storm, error) {
	var all []storm
	for round := range b.Rounds {
		for i := range servers {
			name := servers[(round+i)%len(servers)]
			b.Say(&c.Work, fmt.Sprintf("round %d of %d, %s", round+1, b.Rounds, name))
			err := b.With(ctx, &c.Work, name, func(p *load.Pair) error {
				s, err := weather(&c.Work, p, b.Window*time.Duration(c.windows))
				s.Server, s.Round = name, round+1
				all = append(all, s)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	b.Say(&c.Work, "")
	return all, nil
}

// weather measures one storm in the middle of d.
func weather(w *load.Work, p *load.Pair, d time.Duration) (storm, error) {
	if err := p.Remember(); err != nil {
		return storm{}, err
	}
	if err := p.Subscribe(w.Conns); err != nil {
		return storm{}, err
	}
	if _, err := p.Run(w, time.Second); err != nil { // until buffers and pools are warm
		return storm{}, err
	}
	var before, after server.Status
	if err := p.Server.Ask(&before, "stats"); err != nil {
		return storm{}, err
	}
	l, err := p.Storm(w, d)
	if err != nil {
		return storm{}, err
	}
	if err := p.Server.Ask(&after, "stats"); err != nil {
		return storm{}, err
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return storm{Back: ms(l.Back), Caught: ms(l.Caught), CPU: float64(after.CPU-before.CPU) / 1e9, P99: ms(l.All.Latency().P99)}, nil
}

// stormsOf returns the storms of one server.
func stormsOf(all []storm, server string) []storm {
	var mine []storm
	for _, s := range all {
		if s.Server == server {
			mine = append(mine, s)
		}
	}
	return mine
}

// stormTable is the table of the cell called storm.
func stormTable(c *cell, all []storm, servers []string) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"server", "back ms", "caught up ms", "p99 ms", "CPU s"},
		Note:  "From the cut until all were subscribed again, and until they had all. Nothing was lost or came twice. 64 connect at a time.",
	}
	for _, name := range servers {
		mine := stormsOf(all, name)
		over := func(of func(*storm) float64) string { return measure.Over(mine, of).String() }
		t.Add(name, over(func(s *storm) float64 { return s.Back }), over(func(s *storm) float64 { return s.Caught }),
			over(func(s *storm) float64 { return s.P99 }), over(func(s *storm) float64 { return s.CPU }))
	}
	return t
}

// judgeStorms judges how soon clients of one of our servers had all.
func judgeStorms(c *cell, all []storm, server string) []report.Target {
	mine := stormsOf(all, server)
	if len(mine) == 0 {
		return nil
	}
	caught := measure.Over(mine, func(s *storm) float64 { return s.Caught })
	return []report.Target{{
		Server: server, Target: fmt.Sprintf("%s: %d clients back and caught up within %.0f ms", c.Name, c.Conns, stormBound),
		Measured: caught.String() + " ms", Met: report.Verdict(caught, stormBound),
	}}
}
