package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// footprint is what idle sessions cost in one server, in bytes of resident memory for each, after garbage was collected.
type footprint struct {
	Server     string  `json:"server"`
	Silent     float64 `json:"silent"`     // nothing was received yet
	Spoke      float64 `json:"spoke"`      // just after one message on each
	Rested     float64 `json:"rested"`     // some time later
	Goroutines float64 `json:"goroutines"` // for each session, then
}

// settled is one server while it is being measured.
type settled struct {
	footprint
	pair     *pair
	resident int64 // before there were sessions
	routines int
	spoke    time.Time
}

// idle measures all servers at once: their sessions do nothing, so nobody disturbs the others.
func (b *bench) idle(ctx context.Context, c cell, servers []string) (prints []footprint, err error) {
	all := make([]*settled, 0, len(servers))
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.pair.stop())
		}
	}()
	for _, server := range servers {
		p, err := b.pair(ctx, c, server)
		if err != nil {
			return nil, err
		}
		s := &settled{footprint: footprint{Server: server}, pair: p}
		all = append(all, s)
		b.say(c, server)
		if err := s.fill(c); err != nil {
			return nil, fmt.Errorf("cell %s, server %s: %w", c.name, server, err)
		}
	}
	for _, s := range all {
		b.say(c, "waiting for "+s.Server)
		if err := pause(ctx, time.Until(s.spoke.Add(b.rest))); err != nil {
			return nil, err
		}
		if s.Rested, err = s.cost(c); err != nil {
			return nil, fmt.Errorf("cell %s, server %s: %w", c.name, s.Server, err)
		}
		prints = append(prints, s.footprint)
	}
	b.say(c, "")
	return prints, nil
}

// fill warms a server up, so that its code is not counted, and then lets sessions come, and speak once.
func (s *settled) fill(c cell) error {
	if err := s.pair.connect(min(c.conns, 100)); err != nil {
		return err
	}
	if _, err := s.pair.run(c, 100*time.Millisecond); err != nil {
		return err
	}
	if err := s.pair.disconnect(); err != nil {
		return err
	}
	var err error
	if s.resident, s.routines, err = s.pair.collected(); err != nil {
		return err
	}
	if err := s.pair.connect(c.conns); err != nil {
		return err
	}
	if s.Silent, err = s.cost(c); err != nil {
		return err
	}
	if _, err := s.pair.fixed(c); err != nil {
		return err
	}
	s.spoke = time.Now()
	s.Spoke, err = s.cost(c)
	return err
}

// cost returns what each session costs now.
func (s *settled) cost(c cell) (float64, error) {
	now, routines, err := s.pair.collected()
	s.Goroutines = float64(routines-s.routines) / float64(c.conns)
	return float64(now-s.resident) / float64(c.conns), err
}

// collected collects the server's garbage and returns its memory and how many goroutines it has.
func (p *pair) collected() (resident int64, goroutines int, err error) {
	var s status
	if err := p.server.ask(&s, "gc"); err != nil {
		return 0, 0, err
	}
	resident, _, err = p.server.resident()
	return resident, s.Goroutines, err
}
