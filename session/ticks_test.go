package session_test

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Tick is called without other functions of the handler, without a handshake, and although the peer sends nothing.
func TestTickAlone(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		ticks := make(chan struct{}, 100)
		srv := session.NewServer(line, &session.Handler{Tick: func(*session.Session) { ticks <- struct{}{} }},
			&session.Options{TickInterval: time.Millisecond, HandshakeTimeout: -1, Engine: tr.engine})
		t.Cleanup(func() { _ = srv.Close() })
		client, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		for range 3 {
			receive(t, ticks)
		}
	})
}

// A tick that is due while another function runs follows that function. A session that is always busy gets its ticks.
func TestTickOfABusySession(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var ticked atomic.Int32
		running, resume := make(chan struct{}), make(chan struct{})
		f := newFixture(t, tr, line, session.Handler{
			Message: func(*session.Session, []byte) { running <- struct{}{}; testwait.Hold(t, resume) },
			Tick:    func(*session.Session) { ticked.Add(1) },
		}, &session.Options{TickInterval: 40 * time.Millisecond})
		const rounds = 4
		more := make(chan struct{}, rounds+1)
		var writer sync.WaitGroup
		writer.Go(func() {
			for range more {
				_, _ = io.WriteString(f.client, "go\n")
			}
		})
		defer testwait.Return(t, writer.Wait)
		defer close(more)
		more <- struct{}{}
		for range rounds {
			receive(t, running)
			more <- struct{}{} // the next message arrives before this one has been handled
			receive(t, time.After(50*time.Millisecond))
			resume <- struct{}{}
		}
		receive(t, running)
		resume <- struct{}{}
		await(t, func() bool { return ticked.Load() > 0 })
		if n := ticked.Load(); n < rounds/2 {
			t.Errorf("%d ticks in %d rounds", n, rounds)
		}
	})
}
