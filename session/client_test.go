package session_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// clients are the networks and engines over which a client's session may run.
var clients = []struct {
	name, network string
	o             session.Options
}{
	{"tcp", "tcp", session.Options{}},
	{"tcp goroutine", "tcp4", session.Options{Engine: session.EngineGoroutine}},
	{"unix", "unix", session.Options{}},
	{"unix goroutine", "unix", session.Options{Engine: session.EngineGoroutine}},
	{"tls", "tcp", session.Options{TLS: &tls.Config{InsecureSkipVerify: true}}}, //nolint:gosec // the certificate is not what is tested
}

// overClients runs f for each of the clients, with the address of a server that echoes.
func overClients(t *testing.T, f func(t *testing.T, o session.Options, network, addr string)) {
	t.Helper()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			h := echo()
			srv := session.NewServer(line, &h, nil)
			addr := "127.0.0.1:0"
			if c.network == "unix" {
				addr = socketPath(t)
			}
			ln := listen(t, c.network, addr)
			if c.o.TLS != nil {
				ln = tls.NewListener(ln, serverTLS())
			}
			f(t, c.o, c.network, serve(t, srv, ln))
		})
	}
}

func TestClientReceives(t *testing.T) {
	overClients(t, func(t *testing.T, o session.Options, network, addr string) {
		c := session.NewClient(line, nil, &o)
		defer c.Close()
		s, err := c.Dial(testwait.Context(t), network, addr)
		if err != nil {
			t.Fatal(err)
		}
		if s.RemoteAddr().String() != addr || c.Len() != 1 || c.Stats().Sessions != 1 {
			t.Errorf("to %v, %d sessions", s.RemoteAddr(), c.Len())
		}
		if onLoop := runtime.GOOS == "linux" && o.Engine == session.EngineAuto && o.TLS == nil; session.OnLoop(s) != onLoop {
			t.Errorf("on a loop: %v", !onLoop)
		}
		for i := range 100 {
			if err := s.Send(strconv.AppendInt(nil, int64(i), 10)); err != nil {
				t.Fatal(err)
			}
		}
		next := 0
		for msg := range s.Messages(testwait.Context(t), &err) {
			if err != nil || string(msg) != strconv.Itoa(next) {
				t.Fatalf("received %q, %v; want %d", msg, err, next)
			}
			if next++; next == 100 {
				break
			}
		}
		for s := range c.Sessions() {
			s.Close()
		}
		if _, err := s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if n := c.Len(); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestClientWithHandler(t *testing.T) {
	overClients(t, func(t *testing.T, o session.Options, network, addr string) {
		got := make(chan string, 10)
		closed := make(chan session.CloseInfo, 10)
		c := session.NewClient(line, &session.Handler{
			Open:    func(s *session.Session) error { return s.Send([]byte("hello")) },
			Message: func(_ *session.Session, msg []byte) { got <- string(msg) },
			Drain:   func(s *session.Session) { s.End([]byte("bye\n"), nil) },
			Close:   func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
		}, &o)
		for range 3 {
			if _, err := c.Dial(testwait.Context(t), network, addr); err != nil {
				t.Fatal(err)
			}
			if msg := receive(t, got); msg != "hello" {
				t.Errorf("%q", msg)
			}
		}
		if err := c.Shutdown(testwait.Context(t)); err != nil {
			t.Error(err)
		}
		for range 3 {
			if info := receive(t, closed); info.By != session.ByLocal {
				t.Errorf("ended by %v, %v", info.By, info.Err)
			}
		}
		if _, err := c.Dial(testwait.Context(t), network, addr); !errors.Is(err, session.ErrClientClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

func TestDialOne(t *testing.T) {
	overClients(t, func(t *testing.T, o session.Options, network, addr string) {
		for _, o := range []*session.Options{&o, {Engine: session.EngineLoop, TLS: o.TLS}} {
			s, err := session.Dial(testwait.Context(t), network, addr, line, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			receiveOne(t, s, "hello")
			s.Close()
			if !session.ClientClosed(s) {
				t.Error("the client is open")
			}
			for msg := range s.Messages(testwait.Context(t), &err) {
				t.Errorf("received %q", msg)
			}
			if !errors.Is(err, session.ErrClosed) {
				t.Errorf("error %v", err)
			}
		}
	})
	if s, err := session.Dial(testwait.Context(t), "udplite", "127.0.0.1:1", line, nil); s != nil || err == nil {
		t.Errorf("dialed %v, %v", s, err)
	}
}

func TestDialErrors(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0") // which has no Accept call
	addr := ln.Addr().String()
	t.Cleanup(func() { _ = ln.Close() })
	secure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is not what is tested

	t.Run("handshake", func(t *testing.T) {
		c := session.NewClient(line, nil, &session.Options{TLS: secure, HandshakeTimeout: 10 * time.Millisecond})
		defer c.Close()
		if _, err := c.Dial(testwait.Context(t), "tcp", addr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("close", func(t *testing.T) {
		c := session.NewClient(line, nil, &session.Options{TLS: secure, HandshakeTimeout: -1})
		dialed := make(chan error, 1)
		go func() {
			_, err := c.Dial(context.Background(), "tcp", addr)
			dialed <- err
		}()
		await(t, func() bool { return session.Dialing(c) == 1 })
		_ = c.Close()
		if err := receive(t, dialed); !errors.Is(err, session.ErrClientClosed) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("limit", func(t *testing.T) {
		c := session.NewClient(line, nil, &session.Options{MaxSessions: 1})
		defer c.Close()
		if _, err := c.Dial(testwait.Context(t), "tcp", addr); err != nil {
			t.Error(err)
		}
		if _, err := c.Dial(testwait.Context(t), "tcp", addr); !errors.Is(err, session.ErrLimit) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		other := listen(t, "tcp", "127.0.0.1:0")
		_ = other.Close()
		c := session.NewClient(line, nil, nil)
		defer c.Close()
		var op *net.OpError
		if _, err := c.Dial(testwait.Context(t), "tcp", other.Addr().String()); !errors.As(err, &op) {
			t.Errorf("error %v", err)
		}
	})
}

// A client runs sessions on connections that were made elsewhere.
func TestClientServeConn(t *testing.T) {
	for _, at := range []*session.Attach{nil, {Initial: []byte("zero\n")}} {
		c := session.NewClient(line, nil, &session.Options{HandshakeTimeout: time.Millisecond})
		ours, theirs := net.Pipe()
		s, err := c.ServeConn(ours, at)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(theirs, "one\n") }()
		if at != nil {
			receiveOne(t, s, "zero")
		}
		receiveOne(t, s, "one")
		_ = c.Close()
		if _, err := s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrClientClosed) {
			t.Errorf("error %v", err)
		}
		if _, err := c.ServeConn(pipeEnd(), at); !errors.Is(err, session.ErrClientClosed) {
			t.Errorf("error %v", err)
		}
	}
}

// A session may differ from the others of its client.
func TestClientDialWith(t *testing.T) {
	overClients(t, func(t *testing.T, o session.Options, network, addr string) {
		c := session.NewClient(line, &session.Handler{}, &o)
		defer c.Close()
		got := make(chan string, 2)
		s, err := c.DialWith(testwait.Context(t), network, addr, &session.Attach{
			Handler: &session.Handler{Message: func(s *session.Session, msg []byte) { got <- s.Value().(string) + string(msg) }},
			Limits:  session.Limits{MaxMessage: 8}, Initial: []byte("zero\n"), Value: "got ",
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send([]byte("one"))
		for _, want := range []string{"got zero", "got one"} {
			if msg := receive(t, got); msg != want {
				t.Errorf("%q, want %q", msg, want)
			}
		}
		long := make([]byte, 64<<10)
		_, err = c.DialWith(testwait.Context(t), network, addr, &session.Attach{Initial: long, Limits: session.Limits{MaxMessage: 8}})
		if !errors.Is(err, session.ErrTooLarge) || c.Len() != 1 {
			t.Errorf("error %v, %d sessions", err, c.Len())
		}
	})
}

// Clients and servers in one process close each other's sessions all the time.
func TestClientsAndServers(t *testing.T) {
	overClients(t, func(t *testing.T, o session.Options, network, addr string) {
		c := session.NewClient(line, nil, &o)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				s, err := c.Dial(context.Background(), network, addr)
				if err != nil {
					if !errors.Is(err, session.ErrClientClosed) {
						t.Error(err)
					}
					return
				}
				_ = s.Send([]byte("hello"))
				for msg := range s.Messages(context.Background(), &err) {
					if string(msg) != "hello" || i%2 == 0 {
						break
					}
					_ = s.Send(msg)
				}
				if i%4 == 0 {
					s.Close()
				}
			})
		}
		await(t, func() bool { return c.Stats().Messages > 100 })
		_ = c.Close()
		testwait.Return(t, all.Wait)
	})
}
