package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// Footprint is what idle sessions cost in one server, in bytes of resident memory for each, after garbage was collected.
type Footprint struct {
	Server     string  `json:"server"`
	Silent     float64 `json:"silent"`     // nothing was received yet
	Spoke      float64 `json:"spoke"`      // just after one message on each
	Rested     float64 `json:"rested"`     // some time later
	Goroutines float64 `json:"goroutines"` // for each session, then
}

// settled is one server while it is being measured.
type settled struct {
	Footprint
	pair     *Pair
	resident int64 // before there were sessions
	routines int
	spoke    time.Time
}

// Idle measures all servers at once: their sessions do nothing, so nobody disturbs the others.
func (b *Bench) Idle(ctx context.Context, w *Work, servers []string) (prints []Footprint, err error) {
	all := make([]*settled, 0, len(servers))
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.pair.Stop())
		}
	}()
	for _, name := range servers {
		p, err := b.Pair(ctx, w, name)
		if err != nil {
			return nil, err
		}
		s := &settled{Footprint: Footprint{Server: name}, pair: p}
		all = append(all, s)
		b.Say(w, name)
		if err := s.fill(w); err != nil {
			return nil, w.named(name, err)
		}
	}
	for _, s := range all {
		b.Say(w, "waiting for "+s.Server)
		if err := Pause(ctx, time.Until(s.spoke.Add(b.Rest))); err != nil {
			return nil, err
		}
		if s.Rested, err = s.cost(w); err != nil {
			return nil, w.named(s.Server, err)
		}
		prints = append(prints, s.Footprint)
	}
	b.Say(w, "")
	return prints, nil
}

// fill warms a server up, so that its code is not counted, and then lets sessions come, and speak once.
func (s *settled) fill(w *Work) error {
	if err := s.pair.Connect(min(w.Conns, 100)); err != nil {
		return err
	}
	if _, err := s.pair.Run(w, 100*time.Millisecond); err != nil {
		return err
	}
	if err := s.pair.Disconnect(); err != nil {
		return err
	}
	var err error
	if s.resident, s.routines, err = s.pair.collected(); err != nil {
		return err
	}
	if err := s.pair.Connect(w.Conns); err != nil {
		return err
	}
	if s.Silent, err = s.cost(w); err != nil {
		return err
	}
	if _, err := s.pair.Fixed(w); err != nil {
		return err
	}
	s.spoke = time.Now()
	s.Spoke, err = s.cost(w)
	return err
}

// cost returns what each session costs now.
func (s *settled) cost(w *Work) (float64, error) {
	now, routines, err := s.pair.collected()
	s.Goroutines = float64(routines-s.routines) / float64(w.Conns)
	return float64(now-s.resident) / float64(w.Conns), err
}

// collected collects the server's garbage and returns its memory and how many goroutines it has.
func (p *Pair) collected() (resident int64, goroutines int, err error) {
	var s server.Status
	if err := p.Server.Ask(&s, "gc"); err != nil {
		return 0, 0, err
	}
	resident, _, err = p.Server.Resident()
	return resident, s.Goroutines, err
}

// IdleTable is the table of a cell of idle sessions.
func (b *Bench) IdleTable(title string, prints []Footprint) *report.Table {
	t := &report.Table{
		Title: title,
		Head:  []string{"server", "silent", "just after a message", b.Rest.String() + " later", "goroutines"},
		Note:  "Resident memory of the process after three garbage collections, less that without sessions.",
	}
	for _, p := range prints {
		t.Add(p.Server, fmt.Sprintf("%.0f", p.Silent), fmt.Sprintf("%.0f", p.Spoke), fmt.Sprintf("%.0f", p.Rested),
			measure.Number(max(p.Goroutines, 0)))
	}
	return t
}

// Worst is the most it was.
func (f *Footprint) Worst() float64 { return max(f.Silent, f.Spoke, f.Rested) }

// JudgeIdle compares what an idle session costs with a bound in bytes.
func JudgeIdle(cell string, f Footprint, bound float64) report.Target {
	worst := f.Worst()
	return report.Target{
		Server: f.Server, Target: fmt.Sprintf("%s: at most %.0f B an idle session", cell, bound),
		Measured: fmt.Sprintf("%.0f, %.0f, %.0f B", f.Silent, f.Spoke, f.Rested),
		Met:      report.Verdict(measure.Spread{Median: worst, Min: worst, Max: worst}, bound),
	}
}
