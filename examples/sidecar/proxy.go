package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sluice-push/sluice/splice"
	"github.com/sluice-push/sluice/transport"
)

const (
	dialTimeout = 5 * time.Second
	linger      = 10 * time.Second
)

var (
	errEnded = errors.New("the sidecar has ended")
	errFull  = errors.New("there are as many clients as -connections allows")
)

// proxy forwards the frames of all its clients to one server.
type proxy struct {
	network, address string // of the server
	maxFrame         int
	linger           time.Duration // how long the server may stay when its client has left, and the other way around
	pool             *splice.Pool
	counts           counts

	slots    chan struct{} // one for each client
	links    sync.WaitGroup
	draining context.Context // done when no more calls are taken
	drain    context.CancelFunc
	closing  context.Context // done when all connections end
	close    context.CancelFunc

	mu       sync.Mutex
	listener net.Listener // set by serve
	ended    bool
}

// newProxy makes a proxy for a server.
func newProxy(to string, connections, maxFrame int, o *splice.Options) *proxy {
	p := &proxy{maxFrame: maxFrame, linger: linger, pool: splice.New(o), slots: make(chan struct{}, connections)}
	p.network, p.address = split(to)
	p.draining, p.drain = context.WithCancel(context.Background())
	p.closing, p.close = context.WithCancel(context.Background())
	return p
}

// serve accepts clients until the proxy is shut down, when it returns net.ErrClosed.
func (p *proxy) serve(ln net.Listener) error {
	defer ln.Close()
	p.mu.Lock()
	p.listener = ln
	ended := p.ended
	p.mu.Unlock()
	if ended {
		return net.ErrClosed
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		select {
		case p.slots <- struct{}{}:
		default:
			_ = conn.Close()
			p.counts.refused(conn, errFull)
			continue
		}
		if !p.begin(conn) {
			_ = conn.Close()
			return net.ErrClosed
		}
	}
}

// begin starts to forward the frames of a client, unless the proxy is ending.
func (p *proxy) begin(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.links.Go(func() {
		defer func() { <-p.slots }()
		defer client.Close()
		p.counts.begin()
		defer p.counts.end()
		if err := p.forward(client); err != nil {
			p.counts.refused(client, err)
		}
	})
	return true
}

// forward connects a client to the server, and returns when both connections have ended. The error says why they did not end in order.
func (p *proxy) forward(client net.Conn) error {
	ctx, cancel := context.WithTimeout(p.draining, dialTimeout)
	defer cancel()
	server, err := transport.Dial(ctx, p.network, p.address, nil)
	if err != nil {
		return fmt.Errorf("the server cannot be reached: %w", err)
	}
	defer server.Close()
	l := newLink(p, client, server)
	defer context.AfterFunc(p.closing, func() { l.fail(errEnded) })()
	defer context.AfterFunc(p.draining, l.drain)()
	return l.run()
}

// shutdown takes no more clients and no more calls, and waits until all calls are answered. If ctx is done first, it closes all connections.
func (p *proxy) shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.ended = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.mu.Unlock()
	p.drain()
	late := context.AfterFunc(ctx, p.close)
	p.links.Wait()
	var err error
	if !late() {
		err = ctx.Err()
	}
	p.close()
	_ = p.pool.Close()
	return err
}

// total says what was forwarded.
func (p *proxy) total() string {
	return fmt.Sprintf("%v, %.1f MB of them spliced", p.counts.sum(), float64(p.pool.Stats().Spliced)/1e6)
}
