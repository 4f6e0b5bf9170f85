package session_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// serveOnLoop runs srv on a listener of package transport until the test ends. It returns the address when a loop accepts.
func serveOnLoop(t *testing.T, srv *session.Server) (addr string) {
	t.Helper()
	addr = serve(t, srv, listenWith(t, "tcp", "127.0.0.1:0", nil))
	first, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	await(t, func() bool { return session.LoopAcceptors(srv) == 1 })
	return addr
}

// answered closes conn after want has arrived. Any goroutine may call it.
func answered(t *testing.T, conn net.Conn, want string) {
	defer conn.Close()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("received %q, %v; want %q", got[:n], err, want)
	}
}

// Event loops accept connections, and serve them although other handlers block.
func TestLoopAcceptorServes(t *testing.T) {
	h := echo()
	hold := make(chan struct{})
	message := h.Message
	h.Message = func(s *session.Session, msg []byte) {
		if string(msg) == "hold" {
			testwait.Hold(t, hold)
		}
		message(s, msg)
	}
	srv := session.NewServer(line, &h, &session.Options{Engine: session.EngineLoop})
	addr := serveOnLoop(t, srv)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for j := range 50 {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				what := "hello\n"
				if i < 2 && j == 10 {
					what = "hold\n"
				}
				if _, err := io.WriteString(conn, what); err != nil {
					t.Error(err)
				}
				if what == "hold\n" && i == 1 {
					clients.Go(func() {
						time.AfterFunc(20*time.Millisecond, sync.OnceFunc(func() { close(hold) }))
						answered(t, conn, what)
					})
					continue
				}
				answered(t, conn, what)
			}
		})
	}
	testwait.Return(t, clients.Wait)
	await(t, func() bool { return srv.Len() == 1 })
	if st := srv.Stats(); st.Opened != 401 || st.Messages != 400 {
		t.Errorf("%+v", st)
	}
}

// A connection beyond MaxSessions is refused and counted.
func TestLoopAcceptorLimit(t *testing.T) {
	h := echo()
	srv := session.NewServer(line, &h, &session.Options{Engine: session.EngineLoop, MaxSessions: 1})
	addr := serveOnLoop(t, srv)
	for range 3 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		expectEnd(t, conn)
		_ = conn.Close()
	}
	if n := srv.Stats().Refused; n != 3 {
		t.Error(n)
	}
}

// When a listener is closed, Serve returns the reason, sessions go on, and another listener may follow. Close frees the port at once, although
// connections are being accepted.
func TestLoopAcceptorClosed(t *testing.T) {
	h, sessions := opened(100)
	srv := session.NewServer(line, &h, &session.Options{Engine: session.EngineLoop})
	ln := listenWith(t, "tcp", "127.0.0.1:0", nil)
	served := make(chan error)
	go func() { served <- srv.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testwait.Receive(t, sessions)
	await(t, func() bool { return session.LoopAcceptors(srv) == 1 })
	_ = ln.Close()
	if err := testwait.Receive(t, served); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	echoes(t, conn, "hello\n")

	go func() { served <- srv.Serve(listenWith(t, "tcp", ln.Addr().String(), nil)) }()
	await(t, func() bool {
		other, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			defer other.Close()
			testwait.Hold(t, sessions)
		}
		return err == nil
	})
	var over atomic.Bool
	var knocking sync.WaitGroup
	for range 4 {
		knocking.Go(func() {
			for !over.Load() {
				if other, err := net.Dial("tcp", ln.Addr().String()); err == nil {
					_ = other.Close()
				}
			}
		})
	}
	for range 20 {
		testwait.Receive(t, sessions)
	}
	go func() { // so that Open of further sessions does not block
		for range sessions {
		}
	}()
	_ = srv.Close()
	if err := testwait.Receive(t, served); !errors.Is(err, session.ErrServerClosed) {
		t.Error(err)
	}
	again := listenWith(t, "tcp", ln.Addr().String(), nil)
	over.Store(true)
	_ = again.Close()
	testwait.Return(t, knocking.Wait)
	close(sessions)
	if n := session.LoopAcceptors(srv); n != 0 {
		t.Error(n)
	}
}
