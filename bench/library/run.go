package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// bench measures. Its methods are for one goroutine.
type bench struct {
	programs *programs
	rounds   int
	window   time.Duration // what a sample takes, for most cells
	progress io.Writer
}

// pair is a server with a client that is connected to it.
type pair struct {
	server, client *child
}

// pair starts a server and a client for a cell. No connection is open yet.
func (b *bench) pair(c cell, server string) (*pair, error) {
	var at address
	s, err := b.startServer(c, server, &at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	_, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		s.stop()
		return nil, err
	}
	client, err := start(nil, b.programs.client, port, c.proto(), fmt.Sprint(c.size))
	if err != nil {
		s.stop()
		return nil, err
	}
	return &pair{server: s, client: client}, nil
}

func (b *bench) startServer(c cell, server string, at *address) (*child, error) {
	if server == limit {
		return start(at, b.programs.server, c.proto())
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(at, self, "serve", "-server", server, "-proto", c.proto(), "-burners", fmt.Sprint(c.burners))
}

func (p *pair) stop() {
	p.client.stop()
	p.server.stop()
}

// connect opens n connections more and waits until the server has them all.
func (p *pair) connect(n int) error {
	if err := p.client.ask(&struct{}{}, "connect %d", n); err != nil {
		return err
	}
	return p.settle(n)
}

// settle waits until the server has n connections.
func (p *pair) settle(n int) error {
	pause := time.NewTicker(5 * time.Millisecond) // another process can only be asked again
	defer pause.Stop()
	for range 10000 {
		var s status
		if err := p.server.ask(&s, "sample"); err != nil {
			return err
		}
		if s.Conns == n {
			return nil
		}
		<-pause.C
	}
	return fmt.Errorf("the server does not get to %d connections", n)
}

// run makes the client send for d and returns what it saw.
func (p *pair) run(c cell, d time.Duration) (*load, error) {
	l := new(load)
	err := p.client.ask(l, "run %d 0 %d %d %d %d", d.Milliseconds(), c.inFlight, c.rate, c.sleep.Microseconds(), c.every)
	return l, err
}

// sample measures a server in a cell once, from its start to its end.
func (b *bench) sample(c cell, server string) (sample, error) {
	p, err := b.pair(c, server)
	if err != nil {
		return sample{}, err
	}
	defer p.stop()
	if err := p.connect(c.conns); err != nil {
		return sample{}, err
	}
	d := b.window * time.Duration(c.windows)
	if _, err := p.run(c, d/4); err != nil { // until buffers and pools are warm
		return sample{}, err
	}
	var before, after status
	if err := p.server.ask(&before, "stats"); err != nil {
		return sample{}, err
	}
	l, err := p.run(c, d)
	if err != nil {
		return sample{}, err
	}
	if err := p.server.ask(&after, "stats"); err != nil {
		return sample{}, err
	}
	return newSample(l, &before, &after), nil
}

// cell measures servers in turn, round after round, each round beginning with another one.
func (b *bench) cell(c cell, servers []string) ([]sample, error) {
	var samples []sample
	for round := range b.rounds {
		for i := range servers {
			server := servers[(round+i)%len(servers)]
			_, _ = fmt.Fprintf(b.progress, "\r%-10s round %d/%d  %-20s", c.name, round+1, b.rounds, server)
			s, err := b.sample(c, server)
			if err != nil {
				return nil, fmt.Errorf("cell %s, server %s: %w", c.name, server, err)
			}
			s.Cell, s.Server, s.Round = c.name, server, round+1
			samples = append(samples, s)
		}
	}
	_, _ = fmt.Fprintf(b.progress, "\r%60s\r", "")
	return samples, nil
}
