package session_test

import (
	"net"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// loops are the transports with event loops on which sessions are.
func loops(tr transport) bool {
	return tr.engine == session.EngineLoop && !strings.Contains(tr.name, "outside")
}

func plainLoops(tr transport) bool { return loops(tr) && !strings.Contains(tr.name, "tls") }

// A session whose handler has blocked gets goroutines, and when it has been quick for a while turns on the loop again.
func TestAQuickSessionComesBack(t *testing.T) {
	overSome(t, loops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		if session.Slow(f.s) {
			t.Log("it is slow from the start: the machine is")
		}
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		await(t, func() bool { return session.Slow(f.s) })
		st.release()
		expect(t, f.client, "block\n")
		quick := 0
		await(t, func() bool {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			quick++
			return !session.Slow(f.s)
		})
		if quick < 4 {
			t.Errorf("it came back after %d quick turns", quick)
		}
	})
}

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

// When many handlers block all sessions get goroutines at once, and no more when that is over.
func TestManySlowHandlers(t *testing.T) {
	overSome(t, loops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		all := []net.Conn{f.client}
		await(t, func() bool {
			more := make([]net.Conn, 20)
			for i := range more {
				more[i] = f.dial()
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
