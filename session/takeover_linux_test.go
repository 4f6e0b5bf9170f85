package session_test

import (
	"net"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// loops are the transports whose sessions are on event loops from the start.
func loops(tr transport) bool {
	return tr.engine == session.EngineLoop && !strings.Contains(tr.name, "staying")
}

func plainLoops(tr transport) bool { return loops(tr) && !strings.Contains(tr.name, "tls") }

// One whose handler blocks in one of many turns keeps those on the loop.
func TestOneThatSeldomBlocks(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		for range 10 {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
		}
		if f.srv.Stats().TakenOver > 0 {
			return // the machine is busy
		}
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		await(t, func() bool { return session.Away(f.s) })
		if session.Slow(f.s) {
			t.Error("its next turn is given to a goroutine")
		}
		served(t, f, 2)
		st.release()
		expect(t, f.client, "block\n")
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
	})
}

// While a handler sleeps the driver waits where the runtime's timers are waited for, and when it has ended on a thread of its own again.
func TestADriverParksWhileAHandlerSleeps(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "block\n")
		s := receive(t, st.blocked)
		await(t, func() bool { waits, parks := session.Waits(s); return session.Away(s) && waits && parks })
		st.release()
		expect(t, f.client, "block\n")
		other := f.dial()
		await(t, func() bool {
			write(t, other, "hello\n")
			expect(t, other, "hello\n")
			waits, parks := session.Waits(s)
			return waits && !parks
		})
	})
}

// Nobody looks at a loop that gets on, which would cost a busy server some hundredths of a processor. A handler that blocks then loses it all
// the same.
func TestTheWatchRests(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newStage(t)
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
			return !session.WatchRuns(f.srv)
		})
		block(last)
		st.release()
		expect(t, f.client, "block\n")
		expect(t, last, "block\n")
	})
}

// When three handlers block within a second all sessions get goroutines at once, and no more when that is over.
func TestManySlowHandlers(t *testing.T) {
	overSome(t, loops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		all := []net.Conn{f.client}
		await(t, func() bool {
			more := make([]net.Conn, 5)
			for i := range more {
				more[i] = f.dial()
				write(t, more[i], "hello\n") // over TLS the first turn is a goroutine's
				expect(t, more[i], "hello\n")
			}
			for _, c := range more {
				write(t, c, "block\n")
			}
			for range more {
				receive(t, st.blocked)
			}
			all = append(all, more...)
			return session.AllSlow(f.srv)
		})
		st.release()
		for _, c := range all[1:] {
			expect(t, c, "block\n")
		}
		await(t, func() bool { return !session.AllSlow(f.srv) })
	})
}

// A peer that resets the connection of a session that is away, deaf, or waits for room, wakes the loop once and not for ever.
func TestAResetDoesNotSpin(t *testing.T) {
	st := newStage(t)
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
	half := f.dial() // its handler ends the session, and then it is deaf while what waits is written
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
