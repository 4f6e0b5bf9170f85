package session_test

import (
	"net"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// loops selects the transports whose sessions are on event loops from the start.
func loops(tr transport) bool {
	return tr.engine == session.EngineLoop && !strings.Contains(tr.name, "offloaded")
}

func plainLoops(tr transport) bool { return loops(tr) && !strings.Contains(tr.name, "tls") }

// While a handler sleeps, the loop's new thread waits in the runtime's poller. After the handler has ended, the loop has an OS thread of its own
// again.
func TestLoopThreadParksWhileAHandlerSleeps(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "block\n")
		s := receive(t, st.blocked)
		await(t, func() bool {
			waits, parks := session.LoopWaits(s)
			return session.DispatchedOffLoop(s) && waits && parks
		})
		st.release()
		expect(t, f.client, "block\n")
		other := f.dial()
		await(t, func() bool {
			write(t, other, "hello\n")
			expect(t, other, "hello\n")
			waits, parks := session.LoopWaits(s)
			return waits && !parks
		})
	})
}

// The watchdog does not tick while a loop makes progress, which would cost a busy server CPU time. A handler that blocks then still loses the
// loop.
func TestWatchdogSleeps(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		busy, last := f.dial(), f.dial()
		block := func(c net.Conn) {
			write(t, c, "block\n")
			receive(t, st.blocked)
			served(t, f, 3)
		}
		block(f.client)
		await(t, func() bool {
			write(t, busy, "hello\n")
			expect(t, busy, "hello\n")
			return !session.WatchdogRuns(f.srv)
		})
		block(last)
		st.release()
		expect(t, f.client, "block\n")
		expect(t, last, "block\n")
	})
}

// When handlers of several sessions block within a second, all sessions are offloaded, and return to the loop when that is over.
func TestManyHandlersThatBlock(t *testing.T) {
	overWaiting(t, loops, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		all := []net.Conn{f.client}
		await(t, func() bool {
			more := make([]net.Conn, 5)
			for i := range more {
				more[i] = f.dial()
				write(t, more[i], "hello\n") // over TLS the first dispatch runs on a goroutine
				expect(t, more[i], "hello\n")
			}
			for _, c := range more {
				write(t, c, "block\n")
			}
			for range more {
				receive(t, st.blocked)
			}
			all = append(all, more...)
			return session.AllOffloaded(f.srv)
		})
		st.release()
		for _, c := range all[1:] {
			expect(t, c, "block\n")
		}
		await(t, func() bool { return !session.AllOffloaded(f.srv) })
	})
}

// A peer resets its connection while the session is offloaded, no longer reads, or waits for room. The loop wakes once for that, and not again
// and again.
func TestAResetDoesNotSpin(t *testing.T) {
	st := newBlocker(t)
	f := newFixture(t, transportOf(t, "tcp"), line, st.handler(), &session.Options{WriteTimeout: -1})
	t.Cleanup(st.release)
	reset := func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	write(t, f.client, "block\n")
	receive(t, st.blocked)
	more, stalled := f.dial(), f.dial()
	write(t, more, "block\n")
	receive(t, st.blocked)
	write(t, stalled, "block\n")
	fill(t, receive(t, st.blocked))
	write(t, more, "more\n")
	reset(f.client)
	reset(more)
	reset(stalled)
	half := f.dial() // its handler ends the session, which then reads nothing while it writes the queue
	write(t, half, "block\n")
	ending := receive(t, st.blocked)
	fill(t, ending)
	ending.End(nil, nil)
	_ = half.(*net.TCPConn).CloseWrite()
	if session.Spins(f.srv) {
		t.Error("the loop spins")
	}
	reset(half)
	if session.Spins(f.srv) {
		t.Error("the loop spins")
	}
}
