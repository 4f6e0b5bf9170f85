package session_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A session whose handler has blocked waits for its peer on a goroutine, where a handler that blocks delays no other session. After some seconds
// without blocking it returns to the loop.
func TestASessionThatBlockedIsOffloaded(t *testing.T) {
	overWaiting(t, loops, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "hello\n") // over TLS the first dispatch runs on a goroutine
		expect(t, f.client, "hello\n")
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		await(t, func() bool { return session.Offloaded(f.s) })
		st.release()
		expect(t, f.client, "block\n")
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		await(t, func() bool { return session.WaitsOffLoop(f.s) })
		await(t, func() bool {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			return !session.Offloaded(f.s)
		})
		await(t, func() bool { return !session.WaitsOffLoop(f.s) && !session.DispatchedOffLoop(f.s) })
	})
}

// countOffLoop returns how many sessions wait for their peers on goroutines.
func countOffLoop(srv *session.Server) (n int) {
	for s := range srv.Sessions() {
		if session.WaitsOffLoop(s) {
			n++
		}
	}
	return n
}

func offloadedOnly(tr transport) bool { return strings.Contains(tr.name, "offloaded") }

// If handlers block, every session waits on a goroutine as soon as it is open, and no loop is handed off.
func TestAllSessionsAreOffloaded(t *testing.T) {
	overSome(t, offloadedOnly, func(t *testing.T, tr transport) {
		st := newBlocker(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		other := f.dial()
		await(t, func() bool { return countOffLoop(f.srv) == 2 })
		moved := f.srv.Stats().Moved
		for range 10 {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
		}
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		for range 10 {
			write(t, other, "hello\n")
			expect(t, other, "hello\n")
		}
		st.release()
		expect(t, f.client, "block\n")
		await(t, func() bool { return f.srv.Stats().Moved >= moved+21 })
		if n := f.srv.Stats().HandedOff; n != 0 {
			t.Errorf("%d loops were taken over", n)
		}
	})
}

// A session whose peer is silent has no goroutine, and gets one again when the peer sends something.
func TestASilentSessionReturnsToItsLoop(t *testing.T) {
	overWaiting(t, offloadedOnly, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.WaitsOffLoop(f.s) })
		await(t, func() bool { return !session.WaitsOffLoop(f.s) && !session.DispatchedOffLoop(f.s) })
		for range 2 {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			await(t, func() bool { return session.WaitsOffLoop(f.s) })
		}
	})
}

// A message that comes together with the end is handled.
func TestTheLastMessageToAnOffloadedSession(t *testing.T) {
	overSome(t, offloadedOnly, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.WaitsOffLoop(f.s) })
		write(t, f.client, "hello\n")
		if err := f.client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		expect(t, f.client, "hello\n")
		expectEnd(t, f.client)
		if info := receive(t, f.closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) {
			t.Errorf("ended by %v: %v", info.By, info.Err)
		}
	})
}

// A tick does not keep a silent session on a goroutine.
func TestATickKeepsNoSessionOffLoop(t *testing.T) {
	overSome(t, offloadedOnly, func(t *testing.T, tr transport) {
		ticks := make(chan bool)
		over := make(chan bool)
		h := echo()
		h.Tick = func(*session.Session) {
			select {
			case ticks <- true:
			case <-over:
			}
		}
		f := newFixture(t, tr, line, h, &session.Options{TickInterval: 20 * time.Millisecond})
		t.Cleanup(func() { close(over) })
		await(t, func() bool {
			receive(t, ticks)
			return !session.WaitsOffLoop(f.s)
		})
		for range 10 {
			receive(t, ticks)
			await(t, func() bool { return !session.DispatchedOffLoop(f.s) })
			if session.WaitsOffLoop(f.s) {
				t.Fatal("it stays")
			}
		}
	})
}

// Spare goroutines end also while other sessions are busy.
func TestSpareGoroutinesEnd(t *testing.T) {
	h := session.Handler{Message: func(s *session.Session, msg []byte) {
		_ = s.Send(msg)
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); { //nolint:revive // it computes
		}
	}}
	f := newFixture(t, transportOf(t, "tcp offloaded"), line, h, nil)
	greet := func(c net.Conn) {
		write(t, c, "hello\n")
		expect(t, c, "hello\n")
	}
	before := runtime.NumGoroutine()
	for range 50 {
		greet(f.dial())
	}
	await(t, func() bool { return runtime.NumGoroutine() >= before+40 })
	var over atomic.Bool
	var busy sync.WaitGroup
	defer testwait.Return(t, busy.Wait)
	defer over.Store(true)
	for range 6 {
		c := f.dial()
		busy.Go(func() {
			for answer := make([]byte, 6); !over.Load(); {
				if _, err := c.Write([]byte("hello\n")); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	await(t, func() bool { return runtime.NumGoroutine() < before+30 })
}

// A loop has an OS thread of its own again from its first dispatch after sessions were offloaded.
func TestLoopThreadIsLockedAgain(t *testing.T) {
	shared := make(chan bool, 1)
	h := session.Handler{Message: func(s *session.Session, msg []byte) {
		_, parks := session.LoopWaits(s)
		shared <- parks
		_ = s.Send(msg)
	}}
	f := newFixture(t, transportOf(t, "tcp"), line, h, nil)
	greet := func() bool {
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		return receive(t, shared)
	}
	greet()
	session.OffloadAll(f.srv, 100*time.Millisecond)
	greet()
	await(t, func() bool {
		waits, parks := session.LoopWaits(f.s)
		return waits && parks && !session.AllOffloaded(f.srv) && !session.DispatchedOffLoop(f.s)
	})
	if greet() {
		t.Error("it shares its thread in the first turn")
	}
}

// While descriptors are scarce, offloaded sessions take no second one, and are served all the same.
func TestOffloadedSessionsNeedFewDescriptors(t *testing.T) {
	f := newFixture(t, transportOf(t, "tcp"), line, echo(), nil)
	clients := []net.Conn{f.client}
	for len(clients) < 50 {
		clients = append(clients, f.dial())
	}
	await(t, func() bool { return f.srv.Len() == len(clients) })
	greet := func() {
		for _, c := range clients {
			write(t, c, "hello\n")
		}
		for _, c := range clients {
			expect(t, c, "hello\n")
		}
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	free, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(free)
	few := was
	few.Cur = uint64(free + 10) //nolint:gosec // a descriptor
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	session.OffloadAll(f.srv, time.Hour)
	for range 10 {
		greet()
		if n := countOffLoop(f.srv); n > 10 {
			t.Fatalf("%d of %d sessions have another descriptor", n, len(clients))
		}
	}
}
