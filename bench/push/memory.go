package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// footprint is what subscribers cost in one server.
type footprint struct {
	Server string `json:"server"`
	Steps  []step `json:"steps"`
}

// step is what each subscriber costs when there are so many, in bytes.
type step struct {
	Subscribers int     `json:"subscribers"`
	Resident    float64 `json:"resident"`  // memory of the process
	Collected   float64 `json:"collected"` // the same after garbage was collected and what is not used was given back
	Sockets     float64 `json:"sockets"`   // the kernel's memory for TCP, of the whole machine
	Goroutines  float64 `json:"goroutines"`
}

// at returns the step with the most subscribers up to n, or the first.
func (f *footprint) at(n int) step {
	var found step
	for i, s := range f.Steps {
		if i == 0 || s.Subscribers <= n {
			found = s
		}
	}
	return found
}

// firstSubscribers come before the rest, so that code and tables of the server are not counted.
const firstSubscribers = 100

// footprints measures one server after the other.
func footprints(ctx context.Context, b *load.Bench, c *cell, servers []string) ([]footprint, error) {
	var all []footprint
	for _, name := range servers {
		f := footprint{Server: name}
		err := b.With(ctx, &c.Work, name, func(p *load.Pair) error {
			m := &scales{pair: p, rest: b.Rest}
			if err := m.warm(ctx, &c.Work, min(firstSubscribers, (c.steps[0]+1)/2)); err != nil {
				return err
			}
			for _, n := range c.steps {
				b.Say(&c.Work, fmt.Sprintf("%s, %d subscribers", name, n))
				s, err := m.grow(ctx, n)
				if err != nil {
					return err
				}
				f.Steps = append(f.Steps, s)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	b.Say(&c.Work, "")
	return all, nil
}

// scales weigh one server.
type scales struct {
	pair  *load.Pair
	rest  time.Duration
	conns int // that are open
	empty weight
}

// weight is what a server needs at one time.
type weight struct {
	conns                        int
	resident, collected, sockets int64
	goroutines                   int
}

// warm lets the first subscribers come and get something, and weighs the server.
func (m *scales) warm(ctx context.Context, w *load.Work, n int) error {
	if err := m.pair.Subscribe(n); err != nil {
		return err
	}
	m.conns = n
	if _, err := m.pair.Run(w, 100*time.Millisecond); err != nil {
		return err
	}
	var err error
	m.empty, err = m.weigh(ctx)
	return err
}

// grow lets subscribers come until there are n, and weighs the server.
func (m *scales) grow(ctx context.Context, n int) (step, error) {
	if n > m.conns {
		if err := m.pair.Subscribe(n - m.conns); err != nil {
			return step{}, err
		}
		m.conns = n
	}
	now, err := m.weigh(ctx)
	if err != nil {
		return step{}, err
	}
	each := func(v int64) float64 { return float64(v) / float64(max(now.conns-m.empty.conns, 1)) }
	return step{
		Subscribers: n,
		Resident:    each(now.resident - m.empty.collected),
		Collected:   each(now.collected - m.empty.collected),
		Sockets:     max(each(now.sockets-m.empty.sockets), 0),
		Goroutines:  max(each(int64(now.goroutines-m.empty.goroutines)), 0),
	}, nil
}

// weigh weighs the server.
func (m *scales) weigh(ctx context.Context) (weight, error) {
	if err := load.Pause(ctx, m.rest); err != nil {
		return weight{}, err
	}
	w := weight{conns: m.conns}
	var err error
	if w.sockets, err = socketMemory(); err != nil {
		return w, err
	}
	if w.resident, err = m.pair.Resident(); err != nil {
		return w, err
	}
	var s server.Status
	if err := m.pair.Server.Ask(&s, "gc"); err != nil {
		return w, err
	}
	w.goroutines = s.Goroutines
	w.collected, err = m.pair.Resident()
	w.collected -= s.Unused
	return w, err
}

// socketMemory returns how many bytes the kernel holds for TCP on this machine: for what was sent and not received, for the most part.
func socketMemory() (int64, error) {
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "TCP:" && fields[len(fields)-2] == "mem" {
			pages, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			return pages * int64(os.Getpagesize()), err
		}
	}
	return 0, errors.New("/proc/net/sockstat does not say how much memory TCP has")
}
