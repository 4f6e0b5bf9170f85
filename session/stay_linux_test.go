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

// A session whose handler has blocked waits for its peer on a goroutine, where a handler that blocks has no loop to lose, until a number of turns
// were quick.
func TestASlowSessionStays(t *testing.T) {
	overSome(t, loops, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		write(t, f.client, "hello\n") // over TLS the first turn is a goroutine's
		expect(t, f.client, "hello\n")
		write(t, f.client, "block\n")
		receive(t, st.blocked)
		await(t, func() bool { return session.Slow(f.s) })
		st.release()
		expect(t, f.client, "block\n")
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		await(t, func() bool { return session.Stays(f.s) })
		quick := 1
		await(t, func() bool {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			quick++
			return !session.Slow(f.s)
		})
		if quick < 4 {
			t.Errorf("it came back after %d quick turns", quick)
		}
		await(t, func() bool { return !session.Stays(f.s) && !session.Away(f.s) })
	})
}

// howManyStay returns how many sessions wait for their peers on goroutines.
func howManyStay(srv *session.Server) (n int) {
	for s := range srv.Sessions() {
		if session.Stays(s) {
			n++
		}
	}
	return n
}

func staying(tr transport) bool { return strings.Contains(tr.name, "staying") }

// Where handlers block every session waits on a goroutine as soon as it is open, and no loop is taken over.
func TestAllStay(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		st := newStage(t)
		f := newFixture(t, tr, line, st.handler(), nil)
		t.Cleanup(st.release)
		other := f.dial()
		await(t, func() bool { return howManyStay(f.srv) == 2 })
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
		if n := f.srv.Stats().TakenOver; n != 0 {
			t.Errorf("%d loops were taken over", n)
		}
	})
}

// A session whose peer is silent has no goroutine, and gets one again when it speaks.
func TestASilentSessionComesBack(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.Stays(f.s) })
		await(t, func() bool { return !session.Stays(f.s) && !session.Away(f.s) })
		for range 2 {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
			await(t, func() bool { return session.Stays(f.s) })
		}
	})
}

// What comes together with the end is handled.
func TestTheLastWordsToASessionThatStays(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		await(t, func() bool { return session.Stays(f.s) })
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

// Nor is a tick a reason for it to have one.
func TestATickIsNoReasonToStay(t *testing.T) {
	overSome(t, staying, func(t *testing.T, tr transport) {
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
			return !session.Stays(f.s)
		})
		for range 10 {
			receive(t, ticks)
			await(t, func() bool { return !session.Away(f.s) })
			if session.Stays(f.s) {
				t.Fatal("it stays")
			}
		}
	})
}

// Goroutines that sessions have left end also while other sessions are busy.
func TestGoroutinesAreDismissed(t *testing.T) {
	h := session.Handler{Message: func(s *session.Session, msg []byte) {
		_ = s.Send(msg)
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); { //nolint:revive // it computes
		}
	}}
	f := newFixture(t, transportOf(t, "tcp staying"), line, h, nil)
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

// All sessions come back although there are some whose turns take long, but for reasons that are no business of others.
func TestAllComeBackFrom(t *testing.T) {
	for name, keeper := range map[string]struct {
		tr     string
		handle func(s *session.Session, n int) // the message number n of its session
		ends   bool                            // after each message there is a new session
	}{
		"one that blocks again and again": {tr: "tcp", handle: func(s *session.Session, n int) {
			if n%130 == 0 {
				<-time.After(5 * time.Millisecond)
			}
			_ = s.Send([]byte("done"))
		}},
		"peers that do not read": {tr: "unix", ends: true, handle: func(s *session.Session, _ int) {
			for range 20 {
				_ = s.Send(make([]byte, 60_000))
			}
		}},
		"handshakes and what follows": {tr: "tls loop", ends: true, handle: func(s *session.Session, _ int) {
			_ = s.Send([]byte("done"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := session.Handler{
				Open: func(s *session.Session) error {
					s.SetValue(new(int))
					if name == "handshakes and what follows" {
						<-time.After(2 * time.Millisecond)
					}
					return nil
				},
				Message: func(s *session.Session, _ []byte) {
					n := s.Value().(*int)
					*n++
					keeper.handle(s, *n)
				},
			}
			o := smallBuffers()
			o.WriteTimeout = 50 * time.Millisecond
			f := newFixture(t, transportOf(t, keeper.tr), line, h, o)
			session.TookOver(f.srv)
			c := f.client
			await(t, func() bool {
				write(t, c, "do\n")
				switch {
				case !keeper.ends:
					expect(t, c, "done\n")
				case keeper.tr == "unix":
					receive(t, f.closed)
				default:
					expect(t, c, "done\n")
					_ = c.Close()
				}
				if keeper.ends {
					c = f.dial()
				}
				return !session.AllSlow(f.srv)
			})
		})
	}
}

// A driver has its thread to itself again from the first turn that it gives after all were slow.
func TestADriverHasItsThreadAgain(t *testing.T) {
	shared := make(chan bool, 1)
	h := session.Handler{Message: func(s *session.Session, msg []byte) {
		_, parks := session.Waits(s)
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
	session.TookOver(f.srv)
	greet()
	await(t, func() bool {
		waits, parks := session.Waits(f.s)
		return waits && parks && !session.AllSlow(f.srv) && !session.Away(f.s)
	})
	if greet() {
		t.Error("it shares its thread in the first turn")
	}
}

// Where descriptors are few, sessions leave them to others, however busy they are, and are served all the same.
func TestFewStayForWantOfDescriptors(t *testing.T) {
	f := newFixture(t, transportOf(t, "tcp staying"), line, echo(), nil)
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
	await(t, func() bool { greet(); return howManyStay(f.srv) == len(clients) })
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
	clients = append(clients, f.dial()) // which says so
	for range 3 {
		await(t, func() bool { greet(); return howManyStay(f.srv) <= len(clients)/2 })
	}
}
