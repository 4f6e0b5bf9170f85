package session_test

import (
	"net"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// loops are the transports with event loops.
func loops(tr transport) bool { return tr.engine == session.EngineLoop }

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
		rounds := 0
		await(t, func() bool {
			rounds++
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			return !session.Slow(f.s)
		})
		if rounds < 50 {
			t.Errorf("it came back after %d messages", rounds)
		}
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
