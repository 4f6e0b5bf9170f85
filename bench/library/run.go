package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// bench measures. Its methods are for one goroutine.
type bench struct {
	programs *programs
	rounds   int
	window   time.Duration // what a sample takes, for most cells
	rest     time.Duration // see scale
	progress io.Writer
	profiles string // a folder for profiles of the servers; none when empty
}

// pair is a server with a client that is connected to it.
type pair struct {
	server, client *child
}

// pair starts a server and a client for a cell. No connection is open yet.
func (b *bench) pair(ctx context.Context, c cell, server string) (*pair, error) {
	var at address
	s, err := b.startServer(ctx, c, server, &at)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	client, err := start(ctx, nil, b.programs.client, port, c.proto(), fmt.Sprint(c.size))
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return &pair{server: s, client: client}, nil
}

func (b *bench) startServer(ctx context.Context, c cell, server string, at *address) (*child, error) {
	if server == limit {
		return start(ctx, at, b.programs.server, c.proto())
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "-server", server, "-proto", c.proto(), "-burners", fmt.Sprint(c.burners)}
	if b.profiles != "" {
		args = append(args, "-profile", filepath.Join(b.profiles, c.name+"-"+server+".prof"))
	}
	return start(ctx, at, self, args...)
}

// stop ends both processes.
func (p *pair) stop() error { return errors.Join(p.client.stop(), p.server.stop()) }

// with runs f with a pair and adds to its error who it was.
func (b *bench) with(ctx context.Context, c cell, server string, f func(*pair) error) error {
	p, err := b.pair(ctx, c, server)
	if err == nil {
		err = errors.Join(f(p), p.stop())
	}
	if err != nil {
		return fmt.Errorf("cell %s, server %s: %w", c.name, server, err)
	}
	return nil
}

// connect opens n connections, the first ones, and waits until the server has them all.
func (p *pair) connect(n int) error {
	if err := p.client.ask(&struct{}{}, "connect %d", n); err != nil {
		return err
	}
	return p.settle(n)
}

// disconnect closes all connections and waits until the server has none.
func (p *pair) disconnect() error {
	if err := p.client.ask(&struct{}{}, "close"); err != nil {
		return err
	}
	return p.settle(0)
}

// settle waits until the server has n connections.
func (p *pair) settle(n int) error {
	looks := time.NewTicker(5 * time.Millisecond) // another process can only be asked again
	defer looks.Stop()
	var s status
	for range 10000 {
		if err := p.server.ask(&s, "sample"); err != nil {
			return err
		}
		if s.Conns == n {
			return nil
		}
		<-looks.C
	}
	return fmt.Errorf("the server has %d connections instead of %d", s.Conns, n)
}

// run makes the client send for d and returns what it saw.
func (p *pair) run(c cell, d time.Duration) (*load, error) {
	l := new(load)
	err := p.client.ask(l, "run %d 0 %d %d %d %d", d.Milliseconds(), c.inFlight, c.rate, c.sleep.Microseconds(), c.every)
	return l, err
}

// fixed makes the client send a number of messages on each connection.
func (p *pair) fixed(c cell) (*load, error) {
	l := new(load)
	err := p.client.ask(l, "run 0 %d %d 0 0 0", c.count, c.inFlight)
	return l, err
}

// sample measures a server in a cell.
func (p *pair) sample(c cell, d time.Duration) (sample, error) {
	if err := p.connect(c.conns); err != nil {
		return sample{}, err
	}
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
	return newSample(l, &before, &after)
}

// steady measures servers in turn, round after round, each round beginning with another one.
func (b *bench) steady(ctx context.Context, c cell, servers []string) ([]sample, error) {
	var samples []sample
	for round := range b.rounds {
		for i := range servers {
			server := servers[(round+i)%len(servers)]
			b.say(c, fmt.Sprintf("round %d of %d, %s", round+1, b.rounds, server))
			err := b.with(ctx, c, server, func(p *pair) error {
				s, err := p.sample(c, b.window*time.Duration(c.windows))
				s.Cell, s.Server, s.Round = c.name, server, round+1
				samples = append(samples, s)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	b.say(c, "")
	return samples, nil
}

// say shows what is being measured, on a line of its own that the next call overwrites. No text: nothing is.
func (b *bench) say(c cell, text string) {
	if text == "" {
		_, _ = fmt.Fprintf(b.progress, "\r%79s\r", "")
		return
	}
	_, _ = fmt.Fprintf(b.progress, "\r%-79s", c.name+": "+text)
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
