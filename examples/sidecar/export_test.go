package main

import (
	"context"
	"net"
	"time"

	"github.com/sluice-push/sluice/splice"
)

// Proxy is a sidecar in the process of a test.
type Proxy struct{ p *proxy }

// NewProxy makes a proxy that forwards to a server.
func NewProxy(to string, connections int, o *splice.Options) *Proxy {
	return &Proxy{newProxy(to, connections, 64<<20, o)}
}

// SetLinger sets how long one side may stay when the other has left.
func (p *Proxy) SetLinger(d time.Duration) { p.p.linger = d }

// Failed returns how many connections did not end in order.
func (p *Proxy) Failed() int {
	p.p.counts.mu.Lock()
	defer p.p.counts.mu.Unlock()
	return p.p.counts.failed
}

// Serve accepts clients.
func (p *Proxy) Serve(ln net.Listener) error { return p.p.serve(ln) }

// Shutdown ends the proxy.
func (p *Proxy) Shutdown(ctx context.Context) error { return p.p.shutdown(ctx) }

// Draining reports whether the proxy takes no more calls.
func (p *Proxy) Draining() bool { return p.p.draining.Err() != nil }

// Calls returns how many calls and answers were forwarded.
func (p *Proxy) Calls() (calls, answers uint64) {
	s := p.p.counts.sum()
	return s.calls, s.answers
}

// Spliced returns how many bytes did not pass through the process.
func (p *Proxy) Spliced() uint64 { return p.p.pool.Stats().Spliced }

// Clients returns how many clients there are.
func (p *Proxy) Clients() int {
	p.p.counts.mu.Lock()
	defer p.p.counts.mu.Unlock()
	return p.p.counts.clients
}
