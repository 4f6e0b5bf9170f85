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

// watching is an observer that keeps what it was told.
type watching struct {
	mu     sync.Mutex
	events []string
	errs   map[string]error
}

func (w *watching) note(event string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
	if w.errs == nil {
		w.errs = make(map[string]error)
	}
	w.errs[event] = err
}

func (w *watching) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, " ")
}

func (w *watching) err(event string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs[event]
}

func (w *watching) observer() *session.Observer {
	return &session.Observer{
		Opened:       func(*session.Session) { w.note("opened", nil) },
		Closed:       func(_ *session.Session, info *session.CloseInfo) { w.note("closed:"+info.By.String(), info.Err) },
		Refused:      func(_ net.Addr, err error) { w.note("refused", err) },
		TakenOver:    func(*session.Session) { w.note("taken", nil) },
		Dropped:      func(s *session.Session, _ int) { w.note("dropped", s.Write(nil)) },
		Panicked:     func(_ *session.Session, err *session.PanicError) { w.note("panicked", err) },
		AcceptFailed: func(err error) { w.note("accept", err) },
	}
}

// Whatever is counted is observed, in the order in which it happens.
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
				w := new(watching)
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
				got := strings.ReplaceAll(w.all(), " taken", "") // on a busy machine any handler may be thought slow
				if got != tt.want {
					t.Errorf("events %q, want %q", got, tt.want)
				}
			})
		}
	})
}

func TestObserverRefused(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		w := new(watching)
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
		w := new(watching)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		c := dialTCP(t, serve(t, srv, tls.NewListener(listen(t, "tcp", "127.0.0.1:0"), serverTLS())))
		write(t, c, "this is no TLS\n")
		await(t, func() bool { return w.err("refused") != nil })
	})
	t.Run("header", func(t *testing.T) {
		w := new(watching)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		c := dialTCP(t, behindProxy(t, srv, false))
		write(t, c, "GET / HTTP/1.1\r\n")
		await(t, func() bool { return w.err("refused") != nil })
	})
	t.Run("accept", func(t *testing.T) {
		w := new(watching)
		srv := session.NewServer(line, nil, &session.Options{Observer: w.observer()})
		_ = serve(t, srv, newScripted(&net.OpError{Op: "accept", Err: syscall.EMFILE}))
		await(t, func() bool { return errors.Is(w.err("accept"), syscall.EMFILE) })
	})
}

// Frames that a policy drops are observed by who may use the session then.
func TestObserverDropped(t *testing.T) {
	for _, policy := range []session.Policy{session.Refuse, session.DropOldest} {
		over(t, func(t *testing.T, tr transport) {
			w := new(watching)
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

// A handler that blocks loses its loop, which is counted and observed, and later turns go to goroutines.
func TestObserverTakenOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there are no loops
	}
	w := new(watching)
	goOn := make(chan struct{})
	f := newFixture(t, transportOf(t, "tcp"), line, session.Handler{Message: func(s *session.Session, msg []byte) {
		if string(msg) == "block" {
			testwait.Hold(t, goOn)
		}
		_ = s.Send(msg)
	}}, &session.Options{Observer: w.observer()})
	write(t, f.client, "block\n")
	await(t, func() bool { return f.srv.Stats().TakenOver == 1 && strings.Contains(w.all(), "taken") })
	close(goOn)
	expect(t, f.client, "block\n")
	write(t, f.client, "hello\n")
	expect(t, f.client, "hello\n")
	if st := f.srv.Stats(); st.Moved == 0 || st.Loops == 0 {
		t.Errorf("%+v", st)
	}

	// A handler that waits for its peer gives the loop up by itself.
	o := smallBuffers()
	o.Observer = w.observer()
	o.QueueBytes, o.WriteTimeout = 1, time.Minute
	before := strings.Count(w.all(), "taken")
	f = newFixture(t, transportOf(t, "tcp"), line, session.Handler{Message: func(s *session.Session, _ []byte) {
		for range 100 {
			_ = s.Write(make([]byte, 100<<10))
		}
	}}, o)
	write(t, f.client, "much\n")
	await(t, func() bool { return strings.Count(w.all(), "taken") > before })
	_ = f.client.Close()
}
