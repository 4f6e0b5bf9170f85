package session_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

func TestChain(t *testing.T) {
	var order []string
	named := func(name string) session.Middleware {
		return func(h session.Handler) session.Handler {
			message := h.Message
			h.Message = func(s *session.Session, msg []byte) {
				order = append(order, name)
				message(s, msg)
			}
			return h
		}
	}
	h := session.Chain(session.Handler{Message: func(*session.Session, []byte) { order = append(order, "handler") }}, named("first"), named("second"))
	h.Message(nil, nil)
	if got := strings.Join(order, " "); got != "first second handler" {
		t.Errorf("called %q", got)
	}
	if h.Open != nil || h.Close != nil || h.Tick != nil {
		t.Error("there are functions for nothing")
	}
	if h := session.Chain(session.Handler{Pull: true}, session.Concurrent(1)); !h.Pull || h.Message != nil {
		t.Errorf("%+v", h)
	}
}

func TestLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		h           session.Handler
		debug, info string
	}{
		"in order": {session.Handler{}, "by=peer", ""},
		"refused":  {session.Handler{Open: func(*session.Session) error { return errors.New("no") }}, "session: opened", "by=refusal"},
		"panic":    {session.Handler{Close: func(*session.Session, *session.CloseInfo) {}, Message: func(*session.Session, []byte) { panic("boom") }}, "session: opened", "by=panic"},
	} {
		t.Run(name, func(t *testing.T) {
			debug, info := new(recorder), new(recorder)
			h := session.Chain(tt.h,
				session.Logged(slog.New(slog.NewTextHandler(debug, &slog.HandlerOptions{Level: slog.LevelDebug}))),
				session.Logged(slog.New(slog.NewTextHandler(info, nil))), session.Logged(nil))
			f := newFixture(t, transports[0], line, *h, nil)
			_, _ = f.client.Write([]byte("hello\n"))
			_ = f.client.Close()
			receive(t, f.closed)
			if !debug.has(tt.debug) || !debug.has("session=1") || tt.info != "" && !info.has(tt.info) || tt.info == "" && info.has("session") {
				t.Errorf("debug %q, info %q", debug.out.String(), info.out.String())
			}
		})
	}
}

// Concurrent bounds how many messages are handled at a time, also after a handler has panicked.
func TestConcurrent(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var running, most, total atomic.Int64
		goOn := make(chan struct{})
		h := session.Chain(session.Handler{Message: func(s *session.Session, msg []byte) {
			if string(msg) == "panic" {
				panic("boom")
			}
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			total.Add(1)
			testwait.Hold(t, goOn)
			_ = s.Send(msg)
		}}, session.Concurrent(2))
		f := newFixture(t, tr, line, *h, nil)
		write(t, f.client, "panic\n")
		receive(t, f.closed)
		before := f.srv.Stats().BytesIn
		var all sync.WaitGroup
		for range 6 {
			c := f.dial()
			all.Go(func() {
				if _, err := fmt.Fprintln(c, "hello"); err == nil {
					expect(t, c, "hello\n")
				}
			})
		}
		await(t, func() bool { return f.srv.Stats().BytesIn == before+6*6 && total.Load() == 2 })
		close(goOn)
		testwait.Return(t, all.Wait)
		if most.Load() != 2 || total.Load() != 6 {
			t.Errorf("%d at a time, %d in all", most.Load(), total.Load())
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("zero is no number")
		}
	}()
	session.Concurrent(0)
}
