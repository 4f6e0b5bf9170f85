package session_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// loops are the transports with event loops.
func loops(tr transport) bool { return tr.engine == session.EngineLoop }

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

// A handler that blocks loses its loop when the watch sees it twice, and at first sight when that has happened lately. With TLS
// handshakes take other goroutines.
func TestTakenOverAtFirstSight(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		other := f.dial()
		await(t, func() bool { // on a busy machine turns may have been taken over
			for _, c := range []net.Conn{f.client, other} {
				write(t, c, "hello\n")
				expect(t, c, "hello\n")
			}
			for s := range f.srv.Sessions() {
				if session.Slow(s) {
					return false
				}
			}
			return true
		})
		await(t, func() bool { return !session.Alert(f.srv) && session.HoldWatch(f.srv) })
		before := f.srv.Stats().TakenOver
		block := func(c net.Conn) {
			write(t, c, "block\n")
			s := receive(t, st.blocked)
			await(t, func() bool { return session.Asleep(s) })
		}
		taken := func() uint64 { return f.srv.Stats().TakenOver - before }

		block(f.client)
		session.Look(f.srv)
		if n := taken(); n != 0 {
			t.Fatalf("%d loops were taken over at first sight", n)
		}
		session.Look(f.srv)
		if n := taken(); n != 1 {
			t.Fatalf("%d loops were taken over at second sight", n)
		}
		session.Alarm(f.srv)
		block(other)
		session.Look(f.srv)
		if n := taken(); n != 2 {
			t.Errorf("%d loops were taken over when that was to be expected", n-1)
		}
	})
}

// guarded is a server with a loop at which a sentry stands, and without a watch. The handler computes when it is told to, as long as computes
// says, and then does what the rest of the message says.
type guarded struct {
	*fixture
	st       *stage
	conns    []net.Conn // of the same loop
	computes atomic.Bool
	who      chan *session.Session // has got "who" or has begun to compute
}

func newGuarded(t *testing.T, tr transport) *guarded {
	g := &guarded{st: newStage(t), who: make(chan *session.Session, 10)}
	h := g.st.handler()
	message := h.Message
	h.Message = func(s *session.Session, msg []byte) {
		if text, ok := strings.CutPrefix(string(msg), "compute "); ok {
			g.who <- s
			for g.computes.Load() { //nolint:revive // it computes
			}
			msg = []byte(text)
		} else if text == "who" {
			g.who <- s
		}
		message(s, msg)
	}
	g.fixture = newFixture(t, tr, line, h, nil)
	t.Cleanup(func() { g.computes.Store(false); g.st.release() })
	for len(g.conns) < 5 {
		c := g.dial()
		write(t, c, "who\n")
		s := receive(t, g.who)
		expect(t, c, "who\n")
		if session.Neighbours(g.s, s) && !session.Slow(s) { // on a busy machine turns are taken over
			g.conns = append(g.conns, c)
		}
	}
	await(t, func() bool { return !session.AllSlow(g.srv) && session.HoldWatch(g.srv) })
	session.Alarm(g.srv)
	await(t, func() bool {
		greet(t, g.conns[0])
		return session.Guarded(g.s)
	})
	return g
}

func greet(t *testing.T, c net.Conn) {
	t.Helper()
	write(t, c, "hello\n")
	expect(t, c, "hello\n")
}

// Where handlers have blocked lately, one that sleeps loses its loop to the sentry as soon as there is something for another session, and
// without the watch: whether it sleeps at once or has computed before, and whether that comes from a peer, from this process, or has come at
// the same time.
func TestSentry(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, g *guarded, sleeper, other net.Conn) *session.Session{
		"peer": func(t *testing.T, g *guarded, sleeper, other net.Conn) *session.Session {
			write(t, sleeper, "block\n")
			s := receive(t, g.st.blocked)
			greet(t, other)
			return s
		},
		"process": func(t *testing.T, g *guarded, sleeper, _ net.Conn) *session.Session {
			write(t, sleeper, "block\n")
			s := receive(t, g.st.blocked)
			session.Post(g.s)
			return s
		},
		"later": func(t *testing.T, g *guarded, sleeper, other net.Conn) *session.Session {
			g.computes.Store(true)
			write(t, sleeper, "compute block\n")
			receive(t, g.who)
			write(t, other, "hello\n")
			await(t, func() bool { return !session.Posted(g.s) })
			g.computes.Store(false)
			expect(t, other, "hello\n")
			return receive(t, g.st.blocked)
		},
		"together": func(t *testing.T, g *guarded, sleeper, other net.Conn) *session.Session {
			g.computes.Store(true)
			write(t, g.conns[1], "compute hello\n")
			receive(t, g.who)
			write(t, sleeper, "block\n")
			write(t, other, "hello\n")
			g.computes.Store(false)
			expect(t, g.conns[1], "hello\n")
			expect(t, other, "hello\n")
			return receive(t, g.st.blocked)
		},
	} {
		t.Run(name, func(t *testing.T) {
			overSome(t, plainLoops, func(t *testing.T, tr transport) {
				g := newGuarded(t, tr)
				for _, sleeper := range g.conns[2:] {
					s := f(t, g, sleeper, g.conns[0])
					await(t, func() bool { return session.Away(s) })
				}
			})
		})
	}
}

// While handlers sleep the driver waits where the runtime's timers are waited for, and when they have ended on a thread of its own again.
func TestADriverParksWhileHandlersSleep(t *testing.T) {
	overSome(t, plainLoops, func(t *testing.T, tr transport) {
		g := newGuarded(t, tr)
		write(t, g.conns[2], "block\n")
		s := receive(t, g.st.blocked)
		greet(t, g.conns[0])
		await(t, func() bool { return session.Away(s) && session.Parks(s) })
		g.st.release()
		expect(t, g.conns[2], "block\n")
		await(t, func() bool {
			greet(t, g.conns[0])
			return !session.Parks(s)
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
