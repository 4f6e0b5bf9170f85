package nats_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// proxy passes connections on to a server, and can break them. Its address never changes.
type proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string                // guarded by mu; empty: connections are closed at once
	conns  map[net.Conn]struct{} // guarded by mu
	silent atomic.Bool           // what is received is dropped
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.leadTo("")
		testwait.Return(t, p.running.Wait)
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// leadTo sets the target of further connections, and breaks the present ones.
func (p *proxy) leadTo(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.cut()
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.pass(c) })
	}
}

// pass copies bytes in both directions until one side ends.
func (p *proxy) pass(near net.Conn) {
	defer func() { _ = near.Close() }()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !p.add(target, near, far) {
		return
	}
	defer p.remove(near, far)
	var sides sync.WaitGroup
	for _, c := range [2][2]net.Conn{{near, far}, {far, near}} {
		sides.Go(func() {
			_, _ = io.Copy(writerFunc(func(b []byte) (int, error) {
				if p.silent.Load() {
					return len(b), nil
				}
				return c[0].Write(b)
			}), c[1])
			_ = c[0].Close()
			_ = c[1].Close()
		})
	}
	sides.Wait()
}

type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

// add registers a connection to be cut, unless the target has changed.
func (p *proxy) add(target string, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target != target {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}
