package session_test

import (
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// eventLog is an observer that records the events.
type eventLog struct {
	mu     sync.Mutex
	events []string
	errs   map[string]error
}

func (w *eventLog) note(event string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
	if w.errs == nil {
		w.errs = make(map[string]error)
	}
	w.errs[event] = err
}

func (w *eventLog) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, " ")
}

func (w *eventLog) err(event string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs[event]
}

func (w *eventLog) observer() *session.Observer {
	return &session.Observer{
		Opened:       func(*session.Session) { w.note("opened", nil) },
		Closed:       func(_ *session.Session, info *session.CloseInfo) { w.note("closed:"+info.By.String(), info.Err) },
		Refused:      func(_ net.Addr, err error) { w.note("refused", err) },
		HandedOff:    func(*session.Session) { w.note("handedoff", nil) },
		Dropped:      func(s *session.Session, _ int) { w.note("dropped", s.Write(nil)) },
		Panicked:     func(_ *session.Session, err *session.PanicError) { w.note("panicked", err) },
		AcceptFailed: func(err error) { w.note("accept", err) },
	}
}

// Every event that is counted is observed, in order.
func TestObserver(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		tests := map[string]struct {
			h    session.Handler
			want string
		}{
			"none":  {session.Handler{}, "opened closed:peer"},
			"close": {session.Handler{Message: func(s *session.Session, _ []byte) { s.Close() }}, "opened closed:local"},
			"panic": {session.Handler{Message: func(*session.Session, []byte) { panic("boom") }}, "opened panicked closed:panic"},
			"refuse": {
				session.Handler{Open: func(*session.Session) error { return errors.New("no") }},
				"opened refused closed:refusal",
			},
		}
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				w := new(eventLog)
				srv := session.NewServer(line, &tt.h, &session.Options{Engine: tr.engine, Observer: w.observer(), Linger: -1})
				dial := tr.start(t, srv)
				client, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = client.Write([]byte("hello\n"))
				_ = client.Close()
				await(t, func() bool { return srv.Stats().Closed == 1 })
				_ = srv.Close()
				got := strings.ReplaceAll(w.all(), " handedoff", "") // on a busy machine any handler may lose its loop
				if got != tt.want {
					t.Errorf("events %q, want %q", got, tt.want)
				}
			})
		}
	})
}

func TestObserverRefused(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		w := new(eventLog)
		srv := session.NewServer(line, nil, &session.Options{MaxSessions: -1, MaxSessionsPerAddress: 1, Observer: w.observer()})
		addr := serve(t, srv, listen(t, "tcp", "127.0.0.1:0"))
		first := dialTCP(t, addr)
		await(t, func() bool { return srv.Len() == 1 })
		_ = expectEnd(t, dialTCP(t, addr))
		if err := w.err("refused"); !errors.Is(err, session.ErrLimit) {
			t.Errorf("refused: %v", err)
		}
		_ = first.Close()
	})
	t.Run("handshake", func(t *testing.T) {
		w := new(eventLog)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		c := dialTCP(t, serve(t, srv, tls.NewListener(listen(t, "tcp", "127.0.0.1:0"), serverTLS())))
		write(t, c, "this is no TLS\n")
		await(t, func() bool { return w.err("refused") != nil })
	})
	t.Run("header", func(t *testing.T) {
		w := new(eventLog)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		c := dialTCP(t, behindProxy(t, srv, false))
		write(t, c, "GET / HTTP/1.1\r\n")
		await(t, func() bool { return w.err("refused") != nil })
	})
	t.Run("accept", func(t *testing.T) {
		w := new(eventLog)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		_ = serve(t, srv, newScripted(&net.OpError{Op: "accept", Err: syscall.EMFILE}))
		await(t, func() bool { return errors.Is(w.err("accept"), syscall.EMFILE) })
	})
}

// Frames that a policy drops are observed without the lock, so the observer may use the session.
func TestObserverDropped(t *testing.T) {
	for _, policy := range []session.Policy{session.Refuse, session.DropOldest} {
		over(t, func(t *testing.T, tr transport) {
			w := new(eventLog)
			o := smallBuffers()
			o.Policy, o.Observer, o.QueueFrames = policy, w.observer(), 4
			f := newFixture(t, tr, line, session.Handler{}, o)
			for range 1000 {
				if err := f.s.Write(make([]byte, 20<<10)); errors.Is(err, session.ErrQueueFull) {
					break
				}
			}
			if !strings.Contains(w.all(), "dropped") || f.srv.Stats().Drops == 0 {
				t.Errorf("events %q, %+v", w.all(), f.srv.Stats())
			}
		})
	}
}

// If a handler blocks, its loop is handed off, which is counted and observed. Later dispatches run on goroutines.
func TestObserverHandedOff(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there are no event loops
	}
	w := new(eventLog)
	goOn := make(chan struct{})
	f := newFixture(t, transportOf(t, "tcp"), line, session.Handler{Message: func(s *session.Session, msg []byte) {
		if string(msg) == "block" {
			testwait.Hold(t, goOn)
		}
		_ = s.Send(msg)
	}}, &session.Options{Observer: w.observer()})
	write(t, f.client, "block\n")
	await(t, func() bool { return f.srv.Stats().HandedOff == 1 && strings.Contains(w.all(), "handedoff") })
	close(goOn)
	expect(t, f.client, "block\n")
	write(t, f.client, "hello\n")
	expect(t, f.client, "hello\n")
	if st := f.srv.Stats(); st.Moved == 0 || st.Loops == 0 {
		t.Errorf("%+v", st)
	}

	// A handler that is about to wait for its peer hands off the loop by itself.
	o := smallBuffers()
	o.Observer = w.observer()
	o.QueueBytes, o.WriteTimeout = 1, time.Minute
	before := strings.Count(w.all(), "handedoff")
	f = newFixture(t, transportOf(t, "tcp"), line, session.Handler{Message: func(s *session.Session, _ []byte) {
		for range 100 {
			_ = s.Write(make([]byte, 100<<10))
		}
	}}, o)
	write(t, f.client, "much\n")
	await(t, func() bool { return strings.Count(w.all(), "handedoff") > before })
	_ = f.client.Close()
}
