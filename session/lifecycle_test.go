package session_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

func TestShutdownWaitsForSessions(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		h := echo()
		h.Drain = func(s *session.Session) { s.End([]byte("goodbye\n"), nil) }
		f := newFixture(t, tr, line, h, nil)
		other := f.dial()
		write(t, other, "hello\n")
		expect(t, other, "hello\n")
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			done <- f.srv.Shutdown(ctx)
		}()
		for _, c := range []net.Conn{f.client, other} {
			expect(t, c, "goodbye\n")
			_ = c.Close()
		}
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		if _, err := f.srv.ServeConn(pipeEnd(), nil); !errors.Is(err, session.ErrServerClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

// Without Drain, Shutdown ends sessions in order: sent frames arrive, and then the end.
func TestShutdownWithoutDrain(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), smallBuffers())
		done := make(chan error, 1)
		sent := make(chan struct{})
		go func() {
			_ = f.s.Write(make([]byte, 100_000)) // more than there is room for
			close(sent)
		}()
		expect(t, f.client, "\x00")
		testwait.Receive(t, sent)
		go func() { done <- f.srv.Shutdown(testwait.Context(t)) }()
		if n := len(expectEnd(t, f.client)); n != 99_999 {
			t.Errorf("%d bytes came before the end", n)
		}
		_ = f.client.Close()
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		if info := receive(t, f.closed); !errors.Is(info.Err, session.ErrServerClosed) || info.Undelivered != 0 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
	})
}

func pipeEnd() net.Conn { c, _ := net.Pipe(); return c }

func TestShutdownEndsWithItsContext(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, session.Handler{}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.srv.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		info := receive(t, f.closed)
		if info.By != session.ByLocal || !errors.Is(info.Err, session.ErrServerClosed) {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
		if err := f.srv.Shutdown(context.Background()); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
}

// A handler may close its server, and does not wait for itself.
func TestServerCloseFromAHandler(t *testing.T) {
	for name, end := range map[string]func(*session.Server) error{
		"close":    (*session.Server).Close,
		"shutdown": func(srv *session.Server) error { return srv.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			var f *fixture
			ready := make(chan struct{})
			f = newFixture(t, transports[0], line, session.Handler{
				Message: func(*session.Session, []byte) {
					testwait.Hold(t, ready)
					if err := end(f.srv); err != nil {
						t.Error(err)
					}
				},
				Drain: func(s *session.Session) { s.Abort(nil) },
			}, nil)
			close(ready)
			write(t, f.client, "go\n")
			receive(t, f.closed)
		})
	}
}
