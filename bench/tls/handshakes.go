package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// sample is what one run of handshakes has shown.
type sample struct {
	rate float64 // handshakes a second
	cpu  float64 // CPU seconds of the server for a thousand
}

// handshakes measures handshakes of two servers in turn, full ones and then resumed ones, round after round.
func (c *costs) handshakes(ctx context.Context) (*report.Table, error) {
	servers := []struct {
		title string
		start func() (*peer, error)
	}{
		{"sluice", func() (*peer, error) { return c.startNode(true) }},
		{"net/http", func() (*peer, error) { return c.startOther(ctx, httpServer, true) }},
	}
	kinds := []string{"full", "resumed"}
	samples := make([][][]sample, len(kinds)) // by kind and server
	for i := range samples {
		samples[i] = make([][]sample, len(servers))
	}
	for round := range c.rounds {
		for turn := range servers {
			at := (round + turn) % len(servers)
			err := c.withPeer(servers[at].start, func(p *peer) error {
				for kind := range kinds {
					s, err := c.shake(ctx, p, kind == 1)
					if err != nil {
						return fmt.Errorf("%s handshakes: %w", kinds[kind], err)
					}
					samples[kind][at] = append(samples[kind][at], s)
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, servers[at].title, err)
			}
		}
	}
	t := &report.Table{
		Title: fmt.Sprintf("TLS 1.3 handshakes, ECDSA P-256, %d at a time", c.workers),
		Head:  []string{"server", "handshakes", "a second", "CPU s for 1,000", "CPU × net/http"},
		Note:  fmt.Sprintf("%d rounds of %v. The client, in Go, takes its share of the processors. CPU is that of the server's process.", c.rounds, c.length),
	}
	rate, cpu := func(s *sample) float64 { return s.rate }, func(s *sample) float64 { return s.cpu }
	for kind, name := range kinds {
		for at, server := range servers {
			mine := samples[kind][at]
			ratios := make([]float64, len(mine))
			for round := range mine {
				ratios[round] = mine[round].cpu / samples[kind][len(servers)-1][round].cpu
			}
			t.Add(server.title, name, measure.Over(mine, rate).String(), measure.Over(mine, cpu).String(), measure.NewSpread(ratios).String())
		}
	}
	return t, nil
}

// withPeer starts a server and stops it after use.
func (c *costs) withPeer(start func() (*peer, error), use func(*peer) error) error {
	p, err := start()
	if err != nil {
		return err
	}
	err = use(p)
	if err != nil {
		err = p.why(err)
	}
	return errors.Join(err, p.stop())
}

// shake makes handshakes with a server for a while. Resumed ones follow a full one of each worker, which does not count.
func (c *costs) shake(ctx context.Context, p *peer, resumed bool) (sample, error) {
	configs := make([]*tls.Config, c.workers)
	for i := range configs {
		configs[i] = c.certificate.config()
		if resumed {
			configs[i].ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		if _, err := handshake(ctx, p.address, i, configs[i]); err != nil {
			return sample{}, err
		}
	}
	before, err := child.CPU(p.pid)
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range c.workers {
		all.Go(func() {
			for n := i; time.Since(began) < c.length && ctx.Err() == nil; n += c.workers {
				did, err := handshake(ctx, p.address, n, configs[i])
				if err == nil && did != resumed {
					err = fmt.Errorf("resumed is %v", did)
				}
				if err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	after, err := child.CPU(p.pid)
	if err != nil {
		return sample{}, err
	}
	n := float64(done.Load())
	return sample{rate: n / took.Seconds(), cpu: float64(after-before) / 1e9 / n * 1000}, nil
}

// handshake connects to a server, shakes hands, says that nothing follows, and waits until the server has closed the connection, so that the server has
// certainly done its part and the ticket of the session has come. It reports whether an earlier session was resumed.
func handshake(ctx context.Context, address string, n int, config *tls.Config) (resumed bool, err error) {
	raw, err := dial(ctx, address, n)
	if err != nil {
		return false, err
	}
	defer func() {
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // its port is free at once
		}
		_ = raw.Close()
	}()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return false, err
	}
	state := conn.ConnectionState()
	if state.Version != tls.VersionTLS13 {
		return false, fmt.Errorf("the server speaks %s", tls.VersionName(state.Version))
	}
	if err := conn.CloseWrite(); err != nil {
		return false, err
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("the server does not close: %d bytes, %w", n, err)
	}
	return state.DidResume, nil
}
