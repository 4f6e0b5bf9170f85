package rpc_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
)

// A server that answers is awaited, over a connection that is dialed or made elsewhere.
func TestAwaitServerAnswers(t *testing.T) {
	p := newPlace(t, nil)
	o := &rpc.ConnOptions{AwaitServer: true}
	c, err := rpc.Dial(testwait.Context(t), "tcp", p.address, o)
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, c, "a")
	_ = c.Close()
	here, there := net.Pipe()
	if err := p.server.ServeConn(there); err != nil {
		t.Fatal(err)
	}
	if c, err = rpc.NewConn(testwait.Context(t), here, o); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, c, "b")
	_ = c.Close()
}

// A connection that is accepted and dropped, or not read, is none.
func TestAwaitServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &rpc.ConnOptions{AwaitServer: true}
	for _, drops := range []bool{true, false} {
		ctx, cancel := context.WithCancel(testwait.Context(t))
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			if drops {
				_ = conn.Close()
			} else {
				cancel()
			}
		}()
		_, err := rpc.Dial(ctx, "tcp", ln.Addr().String(), o)
		if rpc.CodeOf(err) != rpc.Unavailable || !drops && !errors.Is(err, context.Canceled) {
			t.Errorf("drops: %t: %v", drops, err)
		}
		cancel()
	}
	_ = ln.Close()
	if _, err := rpc.Dial(testwait.Context(t), "tcp", ln.Addr().String(), o); rpc.CodeOf(err) != rpc.Unavailable {
		t.Error(err)
	}
}

// Unusable is called once, whatever ends a connection first.
func TestUnusable(t *testing.T) {
	for name, end := range map[string]func(p *place, c *rpc.Conn){
		"server stops":         func(p *place, _ *rpc.Conn) { _ = p.server.Shutdown(testwait.Context(t)) },
		"server is closed":     func(p *place, _ *rpc.Conn) { _ = p.server.Close() },
		"connection is closed": func(_ *place, c *rpc.Conn) { _ = c.Close() },
		"connection shut down": func(_ *place, c *rpc.Conn) { _ = c.Shutdown(testwait.Context(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &rpc.Options{DrainGrace: time.Hour})
			var calls atomic.Int64
			var told atomic.Pointer[rpc.Conn]
			c := p.dial(&rpc.ConnOptions{Unusable: func(c *rpc.Conn) {
				calls.Add(1)
				told.Store(c)
				if c.Usable() {
					t.Error("the connection is usable")
				}
			}})
			wantEcho(t, c, "a")
			if calls.Load() != 0 {
				t.Error("it was called too early")
			}
			testwait.Return(t, func() { end(p, c) })
			testwait.Receive(t, c.Done())
			_ = c.Close()
			if calls.Load() != 1 || told.Load() != c {
				t.Errorf("%d calls, of %p, want %p", calls.Load(), told.Load(), c)
			}
		})
	}
}
