package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// dialClients connects n clients to addr.
func dialClients(network, addr string, n int) (clients []net.Conn, err error) {
	clients = make([]net.Conn, n)
	errs := make([]error, 8)
	var dialers sync.WaitGroup
	for d := range errs {
		dialers.Go(func() {
			for i := d; i < n && errs[d] == nil; i += len(errs) {
				if clients[i], errs[d] = net.Dial(network, addr); errs[d] == nil {
					errs[d] = clients[i].SetDeadline(time.Now().Add(2 * testwait.Bound))
				}
			}
		})
	}
	dialers.Wait()
	return clients, errors.Join(errs...)
}

// closeClients reads each client to its end, checks that it got the last frame, and closes it.
func closeClients(clients []net.Conn) error {
	errs := make([]error, 8)
	var readers sync.WaitGroup
	for r := range errs {
		readers.Go(func() {
			for i := r; i < len(clients); i += len(errs) {
				said, err := io.ReadAll(clients[i])
				_ = clients[i].Close()
				if err != nil || string(said) != "goodbye\n" {
					errs[r] = fmt.Errorf("client %d received %q, %w", i, said, err)
				}
			}
		})
	}
	readers.Wait()
	return errors.Join(errs...)
}

// manyServer is a server with very many sessions, most of which are idle.
type manyServer struct {
	srv     *session.Server
	drained atomic.Int64

	mu     sync.Mutex
	ended  int
	faults []string
}

func newManyServer(t *testing.T, e session.Engine, linger time.Duration) (*manyServer, string) {
	m := new(manyServer)
	m.srv = session.NewServer(line, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
		Drain: func(s *session.Session) {
			s.End([]byte("goodbye\n"), nil)
			m.drained.Add(1)
		},
		Close: func(_ *session.Session, info *session.CloseInfo) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.ended++
			if info.By != session.ByLocal || info.Undelivered != 0 {
				m.faults = append(m.faults, fmt.Sprintf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered))
			}
		},
	}, &session.Options{Engine: e, HandshakeTimeout: -1, Linger: linger})
	return m, serve(t, m.srv, listen(t, "tcp", "127.0.0.1:0"))
}

// shutdown shuts the server down, and checks that the laws held for n sessions.
func (m *manyServer) shutdown(ctx context.Context, t *testing.T, n int) error {
	t.Helper()
	err := m.srv.Shutdown(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != n || len(m.faults) > 0 || m.srv.Len() != 0 {
		t.Errorf("%d of %d sessions have ended: %.5q", m.ended, n, m.faults)
	}
	return err
}

// Thousands of sessions end gently within the time that Shutdown has. While they are idle, sessions on loops have no goroutine.
func TestShutdownOfManySessions(t *testing.T) {
	const n = 2000
	for name, engine := range map[string]session.Engine{"loop": session.EngineLoop, "goroutine": session.EngineGoroutine} {
		t.Run(name, func(t *testing.T) {
			m, addr := newManyServer(t, engine, limit)
			before := runtime.NumGoroutine()
			clients, err := dialClients("tcp", addr, n)
			if err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return m.srv.Stats().Opened == n })
			if grown := runtime.NumGoroutine() - before; onLoops(m.srv) && grown > 20 {
				t.Errorf("%d more goroutines than before", grown)
			}
			left := make(chan error, 1)
			go func() { left <- closeClients(clients) }()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if err := m.shutdown(ctx, t, n); err != nil {
				t.Error(err)
			}
			if err := receive(t, left); err != nil {
				t.Error(err)
			}
		})
	}
}

// Shutdown waits no longer than that for peers that do not answer.
func TestShutdownOfManySilentPeers(t *testing.T) {
	const n = 500
	for name, engine := range map[string]session.Engine{"loop": session.EngineLoop, "goroutine": session.EngineGoroutine} {
		t.Run(name, func(t *testing.T) {
			m, addr := newManyServer(t, engine, time.Hour)
			clients, err := dialClients("tcp", addr, n)
			if err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return m.srv.Stats().Opened == n })
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				await(t, func() bool { return m.drained.Load() == n })
				cancel()
			}()
			if err := m.shutdown(ctx, t, n); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if err := closeClients(clients); err != nil { // the clients got the last frame nevertheless
				t.Error(err)
			}
		})
	}
}

// onLoops reports whether the server's sessions are on event loops.
func onLoops(srv *session.Server) bool {
	for s := range srv.Sessions() {
		return session.OnLoop(s)
	}
	return false
}
