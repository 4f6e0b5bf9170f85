package session_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// lawful checks the laws of the life cycle for one session. It is the session's Value.
type lawful struct {
	state   atomic.Int32 // 0 new, 1 open, 2 closed
	running atomic.Int32 // Open, Message or Close
	notify  atomic.Int32 // Writable
	bad     func(string, ...any)
}

func (l *lawful) enter(name string) (leave func()) {
	if n := l.running.Add(1); n != 1 {
		l.bad("%s while another function runs", name)
	}
	return func() { l.running.Add(-1) }
}

// lawfulHandler does what act says, and checks the laws.
func lawfulHandler(bad func(string, ...any), act func(*session.Session)) session.Handler {
	of := func(s *session.Session) *lawful { return s.Value().(*lawful) }
	return session.Handler{
		Open: func(s *session.Session) error {
			l := &lawful{bad: bad}
			s.SetValue(l)
			defer l.enter("Open")()
			if !l.state.CompareAndSwap(0, 1) {
				bad("Open is not the first")
			}
			act(s)
			if s.ID()%7 == 0 {
				return errors.New("refused")
			}
			return nil
		},
		Message: func(s *session.Session, _ []byte) {
			l := of(s)
			defer l.enter("Message")()
			if l.state.Load() != 1 {
				bad("Message in state %d", l.state.Load())
			}
			act(s)
		},
		Writable: func(s *session.Session) {
			l, ok := s.Value().(*lawful)
			if !ok {
				return
			}
			defer l.notify.Add(-1) // act may panic
			if n := l.notify.Add(1); n != 1 {
				bad("Writable runs twice")
			}
			if l.state.Load() == 2 {
				bad("Writable after Close")
			}
			act(s)
		},
		Close: func(s *session.Session, info *session.CloseInfo) {
			l := of(s)
			defer l.enter("Close")()
			if l.notify.Load() != 0 {
				bad("Close while Writable runs")
			}
			if !l.state.CompareAndSwap(1, 2) {
				bad("Close in state %d", l.state.Load())
			}
			if info.By == 0 || info.Err == nil || info.Undelivered < 0 {
				bad("%+v", info)
			}
			if err := s.Send([]byte("late")); !errors.Is(err, session.ErrClosed) {
				bad("Send in Close: %v", err)
			}
		},
	}
}

// randomAct does something to a session, now and then something fatal.
func randomAct(s *session.Session, seed uint64) {
	big := make([]byte, 20_000)
	rnd := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // repeatable
	switch rnd.IntN(40) {
	case 0:
		s.Close()
	case 1:
		s.Abort(io.ErrNoProgress)
	case 2:
		s.End([]byte("goodbye\n"), nil)
	case 3:
		panic("at random")
	case 4:
		_ = s.LocalAddr()
	case 5, 6, 7, 8:
		_ = s.Write(big)
	case 9, 10, 11, 12:
		_, _ = s.TryWrite([][]byte{big, big, big})
	default:
		_ = s.Send(big[:rnd.IntN(100)])
	}
}

// randomClient talks for a while, reads or not, and leaves in one way or another.
func randomClient(c net.Conn, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 4)) //nolint:gosec // repeatable
	_ = c.SetDeadline(time.Now().Add(limit))
	reads, rounds, half := rnd.IntN(3) > 0, rnd.IntN(50), rnd.IntN(2) > 0
	reader := make(chan struct{})
	go func() {
		defer close(reader)
		if reads {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	for range rounds {
		if _, err := io.WriteString(c, "hello\nhello\nhel"); err != nil {
			break
		}
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok && half {
		_ = w.CloseWrite()
	} else {
		_ = c.Close()
	}
	<-reader
	_ = c.Close()
}

// Sessions are ended at random from all sides while everything goes on. The laws hold for each of them, and nothing is left over
// (TestMain looks for goroutines).
func TestLawsOfLife(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var seed atomic.Uint64
		h := lawfulHandler(t.Errorf, func(s *session.Session) { randomAct(s, seed.Add(1)) })
		srv := session.NewServer(line, &h, &session.Options{
			SendBuffer: 16 << 10, Linger: 5 * time.Millisecond, WriteTimeout: 20 * time.Millisecond, IdleTimeout: 30 * time.Millisecond,
			HandshakeTimeout: 200 * time.Millisecond,
		})
		t.Cleanup(func() { _ = srv.Close() })
		dial := tr.start(t, srv)
		var clients, others sync.WaitGroup
		for range 60 {
			clients.Go(func() {
				if c, err := dial(); err == nil { // it may be ended in the handshake
					randomClient(c, seed.Add(1))
				}
			})
		}
		stop := make(chan struct{})
		for range 3 {
			others.Go(func() {
				for s := range sessionsUntil(srv, stop) {
					func() {
						defer func() { _ = recover() }() // panics are for handlers
						randomAct(s, seed.Add(1))
					}()
				}
			})
		}
		clients.Wait()
		_ = srv.Close()
		close(stop)
		others.Wait()
		if st := srv.Stats(); st.Sessions != 0 || st.Opened != st.Closed {
			t.Errorf("%+v", st)
		}
	})
}

// sessionsUntil visits the server's sessions over and over.
func sessionsUntil(srv *session.Server, stop <-chan struct{}) iter.Seq[*session.Session] {
	return func(yield func(*session.Session) bool) {
		for {
			for s := range srv.Sessions() {
				if !yield(s) {
					return
				}
			}
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}
}

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

// A handler may end its server. It does not wait for itself.
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
					<-ready
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
