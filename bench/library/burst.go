package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// state is what a server process needs at one time.
type state struct {
	Resident   int64 `json:"resident"` // bytes of memory
	Goroutines int   `json:"goroutines"`
}

// exertion is what a server needed for a burst of messages.
type exertion struct {
	Server  string  `json:"server"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"`    // messages a second
	CPU     float64 `json:"cpu"`     // CPU seconds of the server's process for each million of messages
	Latency latency `json:"latency"` // in nanoseconds
	Before  state   `json:"before"`  // there were connections
	Peak    state   `json:"peak"`
	After   state   `json:"after"` // some time after the last connection was closed; no garbage collection was asked for
}

// burst measures one server after the other.
func (b *bench) burst(ctx context.Context, c cell, servers []string) ([]exertion, error) {
	var all []exertion
	for _, server := range servers {
		b.say(c, server)
		err := b.with(ctx, c, server, func(p *pair) error {
			e, err := p.burst(ctx, c, b.rest/3)
			e.Server = server
			all = append(all, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	b.say(c, "")
	return all, nil
}

// burst sends what a cell says, and looks at the server meanwhile.
func (p *pair) burst(ctx context.Context, c cell, rest time.Duration) (e exertion, err error) {
	if e.Before, err = p.state(); err != nil {
		return e, err
	}
	if err := p.connect(c.conns); err != nil {
		return e, err
	}
	var before, after status
	if err := p.server.ask(&before, "stats"); err != nil {
		return e, err
	}
	load, goroutines, err := p.watched(c)
	if err != nil {
		return e, err
	}
	e.Peak.Goroutines = goroutines
	if _, e.Peak.Resident, err = p.server.resident(); err != nil {
		return e, err
	}
	if err := p.server.ask(&after, "stats"); err != nil {
		return e, err
	}
	s, err := newSample(load, &before, &after)
	if err != nil {
		return e, err
	}
	e.Seconds, e.Rate, e.CPU, e.Latency = float64(load.NS)/1e9, s.Rate, s.CPU, s.Latency
	if err := p.disconnect(); err != nil {
		return e, fmt.Errorf("after the burst: %w", err)
	}
	if err := pause(ctx, rest); err != nil {
		return e, err
	}
	e.After, err = p.state()
	return e, err
}

// watched sends what a cell says and returns how many goroutines the server had at most.
func (p *pair) watched(c cell) (l *load, goroutines int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, err = p.fixed(c)
	}()
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for {
		var s status
		lookErr := p.server.ask(&s, "sample")
		goroutines = max(goroutines, s.Goroutines)
		if lookErr != nil {
			<-done // a client of a server that is gone ends as well
			return nil, 0, errors.Join(lookErr, err)
		}
		select {
		case <-done:
			return l, goroutines, err
		case <-looks.C:
		}
	}
}

// state returns what the server needs now.
func (p *pair) state() (state, error) {
	var s status
	if err := p.server.ask(&s, "sample"); err != nil {
		return state{}, err
	}
	resident, _, err := p.server.resident()
	return state{Resident: resident, Goroutines: s.Goroutines}, err
}
