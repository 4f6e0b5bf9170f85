package session_test

import (
	"errors"
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

// Handlers that block delay no other session. On event loops, the loop is handed off for that.

// blocker has handlers that block: one that gets "block" waits until release or the end of the test. Other messages are echoed.
type blocker struct {
	t       *testing.T
	blocked chan *session.Session
	goOn    chan struct{}
	once    sync.Once
}

func newBlocker(t *testing.T) *blocker {
	st := &blocker{t: t, blocked: make(chan *session.Session, 1000), goOn: make(chan struct{})}
	t.Cleanup(st.release)
	return st
}

func (st *blocker) release() { st.once.Do(func() { close(st.goOn) }) }

// block reports the session and blocks.
func (st *blocker) block(s *session.Session) {
	st.blocked <- s
	testwait.Hold(st.t, st.goOn)
}

func (st *blocker) handler() session.Handler {
	return session.Handler{Message: func(s *session.Session, msg []byte) {
		if string(msg) == "block" {
			st.block(s)
		}
		_ = s.Send(msg)
	}}
}

// served checks that the server serves n new clients.
func served(t *testing.T, f *fixture, n int) {
	t.Helper()
	clients := make([]net.Conn, n)
	for i := range clients {
		clients[i] = f.dial()
	}
	for range 3 {
		for _, c := range clients {
			write(t, c, "hello\n")
		}
		for _, c := range clients {
			expect(t, c, "hello\n")
		}
	}
}

func TestABlockedHandlerDelaysNoOther(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release) // before the server is closed, because Close waits for handlers
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		served(t, f, 20)
		st.release()
		expect(t, f.client, "block\n")
	})
}

// A machine with few processors serves many sessions whose handlers all block until the last one has begun.
func TestAllHandlersBlock(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const sessions = 60
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		clients := []net.Conn{f.client}
		for len(clients) < sessions {
			clients = append(clients, f.dial())
		}
		for _, c := range clients {
			write(t, c, "block\n")
		}
		for range clients {
			receive(t, st.blocked)
		}
		st.release()
		for _, c := range clients {
			expect(t, c, "block\n")
		}
	})
}

// Open and Close may block as well.
func TestOpenAndCloseThatBlock(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, function := range []string{"open", "close"} {
			st := newBlocker(t)
			var first atomic.Bool
			h := echo()
			if function == "open" {
				h.Open = func(s *session.Session) error {
					if first.CompareAndSwap(true, false) {
						st.block(s)
					}
					return nil
				}
			} else {
				h.Close = func(s *session.Session, _ *session.CloseInfo) {
					if first.CompareAndSwap(true, false) {
						st.block(s)
					}
				}
			}
			f := newFixture(t, tr, line, h, nil)
			t.Cleanup(st.release)
			first.Store(true)
			c := f.dial()
			if function == "close" {
				write(t, c, "hello\n")
				expect(t, c, "hello\n")
				_ = c.Close()
			}
			receive(t, st.blocked)
			served(t, f, 5)
			st.release()
			if function == "open" {
				write(t, c, "hello\n")
				expect(t, c, "hello\n")
			}
		}
	})
}

// The timeouts of other sessions go on.
func TestTimeoutsWhileAHandlerBlocks(t *testing.T) {
	overWaiting(t, every, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		o := smallBuffers()
		o.IdleTimeout, o.WriteTimeout = 500*time.Millisecond, 50*time.Millisecond
		ended := make(chan error, 10)
		h := st.handler()
		h.Close = func(_ *session.Session, info *session.CloseInfo) { ended <- info.Err } // the session whose handler blocks ends last
		f := newFixture(t, tr, line, h, o)
		t.Cleanup(st.release)
		write(t, f.client, "block\n") // at once, before this session times out like the others
		blocked := receive(t, st.blocked)
		idle, stalled := f.dial(), f.dial()
		await(t, func() bool { return f.srv.Stats().Opened == 3 })
		first := true
		for s := range f.srv.Sessions() {
			if s == blocked {
				continue
			}
			if first {
				for taken := 1; taken > 0; {
					taken, _ = s.TryWrite([][]byte{make([]byte, 200_000)})
				}
			}
			first = false
		}
		for range 2 {
			if err := receive(t, ended); !errors.Is(err, session.ErrTimeout) {
				t.Error(err)
			}
		}
		_, _ = idle, stalled
	})
}

// After it has blocked, a function may do everything that it could do before.
func TestEndingAfterBlocking(t *testing.T) {
	var f *fixture
	ends := map[string]func(*session.Session){
		"close":        func(s *session.Session) { s.Close() },
		"abort":        func(s *session.Session) { s.Abort(nil) },
		"end":          func(s *session.Session) { s.End([]byte("goodbye\n"), nil) },
		"panic":        func(*session.Session) { panic("boom") },
		"exit":         func(*session.Session) { runtime.Goexit() },
		"server close": func(*session.Session) { _ = f.srv.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				st := newBlocker(t)
				var running atomic.Pointer[session.Session]
				f = newFixture(t, tr, line, session.Handler{
					Message: func(s *session.Session, msg []byte) {
						if string(msg) != "block" {
							_ = s.Send(msg)
							return
						}
						running.Store(s)
						defer running.Store(nil)
						st.block(s)
						end(s)
					},
					Close: func(s *session.Session, _ *session.CloseInfo) {
						if running.Load() == s {
							t.Error("Close while Message runs")
						}
					},
				}, &session.Options{Linger: -1})
				t.Cleanup(st.release)
				write(t, f.client, "block\n")
				receive(t, st.blocked)
				served(t, f, 2)
				client := f.client // f changes in the next iteration
				go func() { _, _ = io.Copy(io.Discard, client) }()
				st.release()
				receive(t, f.closed)
			})
		})
	}
}

// Server.Close ends all sessions at once, and waits for the handler that blocks.
func TestServerCloseWaitsForABlockedHandler(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		other := f.dial()
		write(t, other, "hello\n")
		expect(t, other, "hello\n")
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		done := make(chan struct{})
		go func() { defer close(done); _ = f.srv.Close() }()
		expectEnd(t, other)
		expectEnd(t, f.client)
		receive(t, f.closed)
		select {
		case <-done:
			t.Error("Close did not wait")
		default:
		}
		st.release()
		receive(t, done)
	})
}
