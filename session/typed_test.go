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

// player is the state of a session.
type player struct {
	name     string
	messages atomic.Int64
	ticks    atomic.Int64
}

func TestTyped(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		writable, closed := make(chan *player, 10), make(chan *player, 10)
		h := session.Typed[*player]{
			Open: func(s *session.Session) (*player, error) { return &player{name: "p"}, nil },
			Message: func(s *session.Session, p *player, msg []byte) {
				p.messages.Add(1)
				if string(msg) == "full" {
					for {
						if n, _ := s.TryWrite([][]byte{make([]byte, 10<<10)}); n == 0 {
							break
						}
					}
				}
				_ = s.Send([]byte(p.name + string(msg)))
			},
			Tick:     func(_ *session.Session, p *player) { p.ticks.Add(1) },
			Writable: func(_ *session.Session, p *player) { writable <- p },
			Drain:    func(s *session.Session, p *player) { s.Abort(errors.New(p.name)) },
			Close:    func(_ *session.Session, p *player, _ *session.CloseInfo) { closed <- p },
		}
		o := smallBuffers()
		o.TickInterval = time.Millisecond
		o.Engine = tr.engine
		srv := session.NewServer(line, h.Handler(), o)
		t.Cleanup(func() { _ = srv.Close() })
		client, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_ = client.SetDeadline(time.Now().Add(limit))
		write(t, client, "hello\n")
		expect(t, client, "phello\n")
		go func() { _, _ = client.Write([]byte("full\n")) }()
		go func() {
			buf := make([]byte, 1<<20)
			for {
				if _, err := client.Read(buf); err != nil {
					return
				}
			}
		}()
		p := receive(t, writable)
		await(t, func() bool { return p.ticks.Load() > 0 })
		for s := range srv.Sessions() {
			if v, ok := s.Value().(*player); !ok || v != p {
				t.Errorf("the Value is %v", s.Value())
			}
		}
		_ = srv.Shutdown(context.Background())
		if receive(t, closed) != p || p.messages.Load() != 2 {
			t.Error("another state, or other messages")
		}
	})
}

// The state in combination with Attach.Value, a refusal, and a Value of another type.
func TestTypedState(t *testing.T) {
	tests := map[string]struct {
		h     session.Typed[string]
		value any
		want  string
		err   string
	}{
		"attached":  {session.Typed[string]{}, "attached", "attached", ""},
		"none":      {session.Typed[string]{}, nil, "", ""},
		"something": {session.Typed[string]{}, 7, "", "the Value has type int, expected string"},
		"made": {session.Typed[string]{Open: func(s *session.Session) (string, error) {
			return s.Value().(string) + " and made", nil
		}}, "attached", "attached and made", ""},
		"replaced": {session.Typed[string]{Open: func(s *session.Session) (string, error) {
			return "made", nil
		}, Tick: func(*session.Session, string) {}}, "attached", "made", ""},
		"refused": {session.Typed[string]{Open: func(*session.Session) (string, error) {
			return "refused", errors.New("no")
		}}, nil, "refused", "no"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			states := make(chan string, 10)
			errs := make(chan error, 1)
			tt.h.Message = func(s *session.Session, state string, _ []byte) { states <- state; s.Close() }
			tt.h.Close = func(_ *session.Session, state string, info *session.CloseInfo) { states <- state; errs <- info.Err }
			srv := session.NewServer(line, nil, nil)
			defer srv.Close()
			client, server := net.Pipe()
			defer client.Close()
			if _, err := srv.ServeConn(server, &session.Attach{Handler: tt.h.Handler(), Value: tt.value}); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = client.Write([]byte("hello\n")) }()
			err := receive(t, errs)
			if tt.err == "" && !errors.Is(err, session.ErrClosed) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
			for len(states) > 0 {
				if state := testwait.Receive(t, states); state != tt.want {
					t.Errorf("state %q, want %q", state, tt.want)
				}
			}
		})
	}
}

func TestTypedLeavesNil(t *testing.T) {
	h := session.Typed[int]{}.Handler()
	if h.Open != nil || h.Message != nil || h.Tick != nil || h.Writable != nil || h.Drain != nil || h.Close != nil {
		t.Error("there are functions for nothing")
	}
}

func TestTypedAllocatesNothing(t *testing.T) {
	type state struct{ a, b, c int }
	client, server := net.Pipe()
	defer client.Close()
	srv := session.NewServer(codec.Length{}, nil, nil)
	defer srv.Close()
	s, err := srv.ServeConn(server, &session.Attach{Value: state{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	h := session.Typed[state]{Message: func(_ *session.Session, st state, msg []byte) { sum += st.b + len(msg) }}.Handler()
	msg := []byte("hello")
	if n := testing.AllocsPerRun(100, func() { h.Message(s, msg) }); n != 0 || sum == 0 {
		t.Errorf("%v allocations", n)
	}
}

// A handler with one type of state hands a session to a handler with another.
func TestTypedUpgrade(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		second := session.Typed[int]{Message: func(s *session.Session, n int, msg []byte) {
			_ = s.Send(append(msg, byte('0'+n)))
		}}.Handler()
		f := newFixture(t, tr, line, *session.Typed[string]{
			Message: func(s *session.Session, _ string, _ []byte) {
				s.SetValue(7)
				s.SetHandler(second)
			},
		}.Handler(), nil)
		write(t, f.client, "upgrade\nhello\n")
		expect(t, f.client, "hello7\n")
	})
}
