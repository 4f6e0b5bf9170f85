package reconnect_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is an unreliable network between TCP clients and a server whose address changes.
type proxy struct {
	ln   net.Listener
	all  sync.WaitGroup
	quit chan struct{}

	mu      sync.Mutex
	backend string
	delay   time.Duration
	stalled chan struct{} // closed when the stall ends; nil while there is no stall
	pairs   map[*pair]struct{}
	closed  bool
}

// pair is one connection through the proxy.
type pair struct{ client, server *net.TCPConn }

func newProxy(t *testing.T) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, quit: make(chan struct{}), pairs: make(map[*pair]struct{})}
	p.all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.connect(conn.(*net.TCPConn)) })
		}
	})
	return p
}

// connect connects a client with the server, or resets its connection if there is no server.
func (p *proxy) connect(client *net.TCPConn) {
	p.mu.Lock()
	backend := p.backend
	p.mu.Unlock()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	server, err := d.DialContext(ctx, "tcp", backend)
	if err != nil {
		reset(client)
		return
	}
	x := &pair{client, server.(*net.TCPConn)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		x.reset()
		return
	}
	p.pairs[x] = struct{}{}
	p.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { p.carry(x.server, x.client) })
	ways.Go(func() { p.carry(x.client, x.server) })
	ways.Wait()
	p.mu.Lock()
	delete(p.pairs, x)
	p.mu.Unlock()
	_, _ = x.client.Close(), x.server.Close()
}

// carry copies bytes one way, and then the end of the stream.
func (p *proxy) carry(to, from *net.TCPConn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		p.hold()
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil && err != io.EOF { //nolint:errorlint // it is never wrapped
			reset(to)
			reset(from)
			return
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

// hold waits until the delay and the stall have ended.
func (p *proxy) hold() {
	p.mu.Lock()
	delay, stalled := p.delay, p.stalled
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.quit:
		}
	}
	if stalled != nil {
		select {
		case <-stalled:
		case <-p.quit:
		}
	}
}

// reset closes a connection so that its peer notices.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func (x *pair) reset() {
	reset(x.client)
	reset(x.server)
}

// move makes new connections go to another server.
func (p *proxy) move(backend string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backend = backend
}

// slow delays all bytes for a time.
func (p *proxy) slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// stall stops all bytes, or lets them continue.
func (p *proxy) stall(stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case stop && p.stalled == nil:
		p.stalled = make(chan struct{})
	case !stop && p.stalled != nil:
		close(p.stalled)
		p.stalled = nil
	}
}

// some calls do for one in n connections, and returns their number.
func (p *proxy) some(n int, do func(*pair)) (done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := 0
	for x := range p.pairs {
		if i++; i%n == 0 {
			do(x)
			done++
		}
	}
	return done
}

// close resets all connections and waits until all goroutines have ended.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.quit)
	_ = p.ln.Close()
	p.some(1, (*pair).reset)
	p.all.Wait()
}
