package session_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// A session whose handler has blocked waits for its peer outside of the loop, where a handler that blocks has nothing to lose, until a number of
// turns were quick.
func TestASlowSessionStaysOutside(t *testing.T) {
	overSome(t, loops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		await(t, func() bool { return session.Slow(f.s) })
		st.release()
		expect(t, f.client, "block\n")
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		await(t, func() bool { return session.Outside(f.s) })
		await(t, func() bool {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			return !session.Outside(f.s) && !session.Slow(f.s)
		})
	})
}

func staying(tr transport) bool { return strings.Contains(tr.name, "outside") }

// Where handlers block every session waits outside, as soon as it is open, and no loop is taken over.
func TestAllStayOutside(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		other := f.dial()
		await(t, func() bool {
			n := 0
			for s := range f.srv.Sessions() {
				if session.Outside(s) {
					n++
				}
			}
			return n == 2
		})
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
		if st := f.srv.Stats(); st.TakenOver != 0 || st.Moved < moved+20 { // the last may be counted a little later
			t.Errorf("%d loops were taken over, and %d turns outside", st.TakenOver, st.Moved-moved)
		}
	})
}

// A session whose peer is silent has no goroutine.
func TestASilentSessionComesBack(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.Outside(f.s) })
		await(t, func() bool { return !session.Outside(f.s) && !session.Away(f.s) })
		for range 2 { // and goes out again
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			await(t, func() bool { return session.Outside(f.s) })
		}
	})
}

// What comes together with the end is handled.
func TestTheLastWordsToASessionOutside(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.Outside(f.s) })
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

// Where descriptors are few, sessions leave them to others, and are served all the same.
func TestNobodyStaysForWantOfDescriptors(t *testing.T) {
	f := newFixture(t, transportOf(t, "tcp outside"), line, echo(), nil)
	clients := []net.Conn{f.client}
	for len(clients) < 50 {
		clients = append(clients, f.dial())
	}
	await(t, func() bool { return f.srv.Len() == len(clients) })
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(len(clients))*2 + 40 // each of these has two
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	out := func() (n int) {
		for s := range f.srv.Sessions() {
			if session.Outside(s) {
				n++
			}
		}
		return n
	}
	await(t, func() bool { return out() == 0 })
	for range 3 {
		for _, c := range clients {
			write(t, c, "hello\n")
		}
		for _, c := range clients {
			expect(t, c, "hello\n")
		}
		for s := range f.srv.Sessions() {
			await(t, func() bool { return !session.Away(s) })
		}
		if n := out(); n > 0 {
			t.Errorf("%d stay", n)
		}
	}
}
