package session_test

import (
	"bufio"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// An idle session holds no memory for writing, and no buffer for reading if it can wait without one.
func TestAnIdleSessionHoldsNothing(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var rested atomic.Bool
		h := echo()
		reply := h.Message
		h.Message = func(s *session.Session, msg []byte) {
			if session.InputReleased(s) {
				rested.Store(true)
			}
			reply(s, msg)
		}
		f := newFixture(t, tr, line, h, nil)
		write(t, f.client, strings.Repeat("hello\n", 50))
		expect(t, f.client, strings.Repeat("hello\n", 50))
		await(t, func() bool { return !f.s.HasQueueOrWriter() })
		if !tr.direct || tr.engine == session.EngineLoop {
			return
		}
		// Bytes may come just before the attempt to read that would find nothing, so more than one try is fair.
		for tries := 0; !rested.Load(); tries++ {
			if tries == 10_000 {
				t.Fatal("it never gave up its read buffer")
			}
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
		}
	})
}

// If a session has handled something and its peer falls silent, another goroutine with a small stack goes on with it.
func TestASilentSessionGetsAFreshGoroutine(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.engine != session.EngineLoop }, func(t *testing.T, tr transport) {
		srv := session.NewServer(line, &session.Handler{Message: func(s *session.Session, _ []byte) {
			name, _, _ := strings.Cut(string(debug.Stack()), " [") // goroutine 7 [running]: ...
			_ = s.Send([]byte(name))
		}}, &session.Options{Engine: tr.engine})
		defer srv.Close()
		session.SetFreshAfter(srv, time.Microsecond)
		conn, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		ask := func() string {
			write(t, conn, "who\n")
			name, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
		for range 3 {
			first := ask()
			await(t, func() bool { return ask() != first })
		}
	})
}
