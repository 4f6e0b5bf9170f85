package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// state is what a server process needs at one time.
type state struct {
	Resident   int64 `json:"resident"` // bytes of memory
	Goroutines int   `json:"goroutines"`
}

// exertion is what a server needed for a burst of messages.
type exertion struct {
	Server  string          `json:"server"`
	Seconds float64         `json:"seconds"`
	Rate    float64         `json:"rate"`    // messages a second
	CPU     float64         `json:"cpu"`     // CPU seconds of the server's process for each million of messages
	Latency measure.Latency `json:"latency"` // in nanoseconds
	Before  state           `json:"before"`  // there were connections
	Peak    state           `json:"peak"`
	After   state           `json:"after"` // some time after the last connection was closed; no garbage collection was asked for
}

// bursts measures one server after the other.
func bursts(ctx context.Context, b *load.Bench, c *cell, servers []string) ([]exertion, error) {
	var all []exertion
	for _, name := range servers {
		b.Say(&c.Work, name)
		err := b.With(ctx, &c.Work, name, func(p *load.Pair) error {
			e, err := pair{p}.burst(ctx, &c.Work, b.Rest/3)
			e.Server = name
			all = append(all, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	b.Say(&c.Work, "")
	return all, nil
}

// pair is a server with a client.
type pair struct{ *load.Pair }

// burst sends what a cell says, and looks at the server meanwhile.
func (p pair) burst(ctx context.Context, w *load.Work, rest time.Duration) (e exertion, err error) {
	if e.Before, err = p.state(); err != nil {
		return e, err
	}
	if err := p.Connect(w.Conns); err != nil {
		return e, err
	}
	var before, after server.Status
	if err := p.Server.Ask(&before, "stats"); err != nil {
		return e, err
	}
	l, goroutines, err := p.watched(w)
	if err != nil {
		return e, err
	}
	e.Peak.Goroutines = goroutines
	if _, e.Peak.Resident, err = p.Server.Resident(); err != nil {
		return e, err
	}
	if err := p.Server.Ask(&after, "stats"); err != nil {
		return e, err
	}
	s, err := load.NewSample(l, &before, &after)
	if err != nil {
		return e, err
	}
	e.Seconds, e.Rate, e.CPU, e.Latency = float64(l.NS)/1e9, s.Rate, s.CPU, s.Latency
	if err := p.Disconnect(); err != nil {
		return e, fmt.Errorf("after the burst: %w", err)
	}
	if err := load.Pause(ctx, rest); err != nil {
		return e, err
	}
	e.After, err = p.state()
	return e, err
}

// watched sends what a cell says and returns how many goroutines the server had at most.
func (p pair) watched(w *load.Work) (l *load.Load, goroutines int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, err = p.Fixed(w)
	}()
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for {
		var s server.Status
		lookErr := p.Server.Ask(&s, "sample")
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
func (p pair) state() (state, error) {
	var s server.Status
	if err := p.Server.Ask(&s, "sample"); err != nil {
		return state{}, err
	}
	resident, _, err := p.Server.Resident()
	return state{Resident: resident, Goroutines: s.Goroutines}, err
}
