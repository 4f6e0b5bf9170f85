package session_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A session begins with lines. In the middle of its input it changes to another codec, another handler and other limits.
func TestUpgrade(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		big := strings.Repeat("0123456789", 20_000)
		closed := make(chan session.By, 10)
		upgraded := &session.Handler{
			Open: func(*session.Session) error { t.Error("opened twice"); return nil },
			Message: func(s *session.Session, msg []byte) {
				if string(msg) != big {
					t.Errorf("%d bytes", len(msg))
				}
				_ = s.Send([]byte("big"))
			},
			Close: func(_ *session.Session, info *session.CloseInfo) { closed <- info.By },
		}
		h := session.Handler{
			Message: func(s *session.Session, msg []byte) {
				if string(msg) != "upgrade" {
					t.Errorf("message %.20q", msg)
				}
				s.SetCodec(codec.Length{Max: -1})
				s.SetHandler(upgraded)
				s.SetLimits(session.Limits{MaxMessage: len(big)})
				_ = s.Send([]byte("yes"))
			},
		}
		f := newFixture(t, tr, line, h, &session.Options{MaxMessage: 100})
		frame, err := codec.Length{Max: -1}.AppendEncode(nil, []byte(big))
		if err != nil {
			t.Fatal(err)
		}
		write(t, f.client, "upgrade\n"+string(frame[:1000]))
		expect(t, f.client, "\x00\x00\x00\x03yes")
		write(t, f.client, string(frame[1000:]))
		expect(t, f.client, "\x00\x00\x00\x03big")
		_ = f.client.Close()
		if by := receive(t, closed); by != session.ByPeer {
			t.Errorf("closed by %v", by)
		}
		if len(f.closed) != 0 {
			t.Error("the first handler's Close was called")
		}
	})
}

// Each limit of one session holds, whether Open sets it or ServeConn gets it.
func TestLimitsOfOneSession(t *testing.T) {
	tests := []struct {
		name   string
		server session.Options
		l      session.Limits
		in     string
		by     session.By
		err    error
	}{
		{"message", session.Options{}, session.Limits{MaxMessage: 100, Linger: -1}, strings.Repeat("x", 101) + "\n", session.ByError, session.ErrTooLarge},
		{"half a message", session.Options{}, session.Limits{MaxMessage: 1, Linger: -1}, strings.Repeat("x", 20_000), session.ByError, session.ErrTooLarge},
		{"idle", session.Options{}, session.Limits{IdleTimeout: 5 * time.Millisecond}, "x\n", session.ByTimeout, session.ErrTimeout},
		{"not idle", session.Options{IdleTimeout: time.Millisecond}, session.Limits{IdleTimeout: -1, Linger: -1}, "end\n", session.ByLocal, nil},
		{"tick", session.Options{}, session.Limits{TickInterval: time.Millisecond}, "x\n", session.ByLocal, errTicked},
		{"no tick", session.Options{TickInterval: time.Millisecond}, session.Limits{TickInterval: -1, Linger: -1}, "end\n", session.ByLocal, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				h := session.Handler{
					Open: func(s *session.Session) error { s.SetLimits(tt.l); return nil },
					Message: func(s *session.Session, msg []byte) {
						if string(msg) == "end" {
							s.End(nil, nil)
						}
					},
					Tick: func(s *session.Session) { s.Abort(errTicked) },
				}
				if tt.name == "not idle" || tt.name == "no tick" { // the session might end before Open
					tt.server.HandshakeTimeout = -1
				}
				f := newFixture(t, tr, line, h, &tt.server)
				go func() { _, _ = f.client.Write([]byte(tt.in)) }()
				if info := receive(t, f.closed); info.By != tt.by || tt.err != nil && !errors.Is(info.Err, tt.err) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
			})
		})
	}
}

var errTicked = errors.New("ticked")

// Zero keeps the server's option, also one that is off. Negative is off.
func TestLimitsOverOptions(t *testing.T) {
	full := session.Options{
		MaxMessage: 1, QueueBytes: 2, QueueFrames: 3, QueueAge: 4, Policy: session.Refuse, WriteTimeout: 5, HandshakeTimeout: 6, IdleTimeout: 7,
		FirstTimeout: 12, Linger: 8, TickInterval: 9, ReadBuffer: 10, MaxSessions: 11,
	}
	off := session.Options{WriteTimeout: -1, HandshakeTimeout: -1, Linger: -1}
	tests := map[string]struct {
		o session.Options
		l session.Limits
		f func(*session.Options)
	}{
		"nothing": {full, session.Limits{QueueAge: 4}, func(*session.Options) {}},
		"all": {
			full,
			session.Limits{
				MaxMessage: 101, QueueBytes: 102, QueueFrames: 103, QueueAge: 104, Policy: session.CloseSlow, WriteTimeout: 105,
				IdleTimeout: 107, Linger: 108, TickInterval: 109,
			},
			func(o *session.Options) {
				o.MaxMessage, o.QueueBytes, o.QueueFrames, o.QueueAge, o.Policy = 101, 102, 103, 104, session.CloseSlow
				o.WriteTimeout, o.IdleTimeout, o.Linger, o.TickInterval = 105, 107, 108, 109
			},
		},
		"off": {
			full,
			session.Limits{QueueAge: -1, WriteTimeout: -1, IdleTimeout: -1, Linger: -1, TickInterval: -1},
			func(o *session.Options) {
				o.QueueAge, o.WriteTimeout, o.IdleTimeout, o.Linger, o.TickInterval = 0, 0, 0, 0, 0
			},
		},
		"stays off": {off, session.Limits{QueueBytes: 5}, func(o *session.Options) { o.QueueBytes = 5 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := session.NewServer(line, nil, &tt.o)
			want := session.Settings(srv, session.Limits{})
			tt.f(&want)
			if got := session.Settings(srv, tt.l); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestLimitsAreShared(t *testing.T) {
	srv := session.NewServer(line, nil, nil)
	for n := range 200 {
		l := session.Limits{MaxMessage: 1 + n}
		if shared := session.SameSettings(srv, l, l); shared != (n < 64) {
			t.Fatalf("the limits number %d are shared: %v", n, shared)
		}
	}
}

func TestAttachLimits(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	closed := make(chan error, 1)
	srv := session.NewServer(line, &session.Handler{Close: func(_ *session.Session, info *session.CloseInfo) { closed <- info.Err }}, nil)
	defer srv.Close()
	if _, err := srv.ServeConn(server, &session.Attach{Limits: session.Limits{MaxMessage: 3}}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.Write([]byte("four\n")) }()
	if err := receive(t, closed); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

// If the limits of a queue grow, waiting callers are admitted. A nil handler drops messages.
func TestLimitsGrow(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		grown := make(chan struct{})
		h := session.Handler{Message: func(s *session.Session, _ []byte) {
			s.SetLimits(session.Limits{QueueBytes: 10 << 20, WriteTimeout: -1})
			s.SetHandler(nil)
			close(grown)
		}}
		o := smallBuffers()
		o.QueueBytes = 1 << 10
		f := newFixture(t, tr, line, h, o)
		done := make(chan error, 1)
		go func() {
			for {
				err := f.s.Write(make([]byte, 100<<10))
				select {
				case <-grown:
					done <- err
					return
				default:
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
		await(t, func() bool { return f.s.Waiters() > 0 })
		write(t, f.client, "grow\n")
		receive(t, grown)
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		_ = f.client.Close()
	})
}

// Neither Drain nor Writable is called before Open has returned, and both are called after that.
func TestNothingBeforeOpen(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		goOn := make(chan struct{})
		var open atomic.Bool
		calls := make(chan string, 10)
		began := make(chan *session.Session, 1)
		h := session.Handler{
			Open: func(s *session.Session) error {
				for {
					if n, _ := s.TryWrite([][]byte{make([]byte, 100<<10)}); n == 0 {
						break
					}
				}
				began <- s
				testwait.Hold(t, goOn)
				open.Store(true)
				return nil
			},
			Writable: func(*session.Session) {
				if !open.Load() {
					calls <- "too early: "
				}
				calls <- "writable"
			},
			Drain: func(s *session.Session) {
				if !open.Load() {
					calls <- "too early: "
				}
				calls <- "drain"
				s.Abort(nil)
			},
		}
		o := smallBuffers()
		o.Engine = tr.engine
		srv := session.NewServer(line, &h, o)
		t.Cleanup(func() { _ = srv.Close() })
		client, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		s := receive(t, began)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_ = client.SetDeadline(time.Now().Add(limit))
			buf := make([]byte, 1<<20)
			for {
				if _, err := client.Read(buf); err != nil {
					return
				}
			}
		}()
		await(t, func() bool { return !s.HasQueueOrWriter() })
		if len(calls) != 0 {
			t.Error(testwait.Receive(t, calls))
		}
		close(goOn)
		if name := receive(t, calls); name != "writable" {
			t.Error(name)
		}
		_ = srv.Shutdown(context.Background())
		if name := receive(t, calls); name != "drain" {
			t.Error(name)
		}
		receive(t, read)
	})
}

// If a server shuts down during Open, Drain is called when Open has returned.
func TestShutdownDuringOpen(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		goOn, began, calls := make(chan struct{}), make(chan struct{}), make(chan bool, 10)
		var open atomic.Bool
		h := session.Handler{
			Open:  func(*session.Session) error { close(began); testwait.Hold(t, goOn); open.Store(true); return nil },
			Drain: func(s *session.Session) { calls <- open.Load(); s.Abort(nil) },
		}
		srv := session.NewServer(line, &h, &session.Options{Engine: tr.engine})
		client, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		receive(t, began)
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(context.Background()) }()
		await(t, func() bool { return session.OwesDrain(srv) })
		close(goOn)
		if after := receive(t, calls); !after {
			t.Error("Drain was called during Open")
		}
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	})
}
