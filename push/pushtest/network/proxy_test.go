package network_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// Under all conditions every byte arrives once, in order and unchanged, in both directions at once, and the end behind them.
func TestPassesOn(t *testing.T) {
	for _, text := range []string{
		"none",
		"delay=2ms,jitter=5ms",
		"delay-up=2ms,down=2MB,up=4MB,jitter-down=1ms",
		"buffer=100B",
		"stall=1ms-2ms/5ms,delay=1ms",
		"buffer=1500B,jitter=1ms,down=1MB",
	} {
		t.Run(text, func(t *testing.T) {
			c, err := network.ParseConditions(text)
			must(t, err)
			w := newWorld(t, c)
			client, server, through := w.join()
			up, down := noise(100_000, 1), noise(150_000, 2)
			waitUp, waitDown := send(client, up, true), send(server, down, true)
			all := make(chan error, 1)
			go func() {
				got, err := io.ReadAll(server)
				if string(got) != string(up) {
					err = errors.Join(err, errors.New("other bytes came up"))
				}
				all <- err
			}()
			got, err := io.ReadAll(client)
			if err != nil || string(got) != string(down) {
				t.Errorf("%d bytes came down: %v", len(got), err)
			}
			for _, err := range []error{testwait.Receive(t, all), waitUp(), waitDown()} {
				must(t, err)
			}
			testwait.True(t, "the connection has ended", func() bool { return w.proxy.Stats().Open == 0 })
			s := w.proxy.Stats()
			want := network.Stats{
				Accepted: 1, Up: network.Flow{Taken: 100_000, Delivered: 100_000}, Down: network.Flow{Taken: 150_000, Delivered: 150_000},
			}
			if s != want {
				t.Errorf("%+v\nwant %+v", s, want)
			}
			if up, down := through.Stats(); up != want.Up || down != want.Down {
				t.Errorf("of the connection: %+v, %+v", up, down)
			}
		})
	}
}

// While a connection stalls, nothing arrives, and no more is read than the buffer holds. When it resumes, everything arrives. Other connections
// are not affected.
func TestStall(t *testing.T) {
	w := newWorld(t, network.Conditions{Up: network.Way{Buffer: 10_000}})
	client, server, through := w.join()
	other, otherServer, _ := w.join()
	up := noise(200_000, 1)
	for _, step := range []struct {
		name          string
		stall, resume func()
	}{
		{"one", through.Stall, through.Resume},
		{"one by itself, then all", through.Stall, w.proxy.Resume},
		{"all", func() { w.proxy.Stall(1) }, w.proxy.Resume},
		{"all, then one by itself", func() { w.proxy.Stall(1) }, through.Resume},
	} {
		t.Run(step.name, func(t *testing.T) {
			before, _ := settled(t, through)
			step.stall()
			wait := send(client, up, false)
			testwait.True(t, "the buffer is full", func() bool {
				flow, _ := through.Stats()
				return flow.Taken-before.Taken == 10_000
			})
			if strings.HasPrefix(step.name, "one") {
				must(t, send(other, up[:100], false)())
				expect(t, otherServer, up[:100])
			}
			if flow, _ := through.Stats(); flow.Delivered != before.Delivered || flow.Taken != before.Taken+10_000 {
				t.Fatalf("while it stalls: %+v, before %+v", flow, before)
			}
			step.resume()
			expect(t, server, up)
			must(t, wait())
		})
	}
	// Connections that are made while all stall, stall too.
	w.proxy.Stall(1)
	client, server, through = w.join()
	must(t, send(client, up[:1000], true)())
	testwait.True(t, "all is under way", func() bool {
		flow, _ := through.Stats()
		heard, _ := through.Heard()
		return flow.Taken == 1000 && heard
	})
	if flow, _ := through.Stats(); flow.Delivered != 0 {
		t.Errorf("while it stalls: %+v", flow)
	}
	w.proxy.Resume()
	if got, err := io.ReadAll(server); err != nil || string(got) != string(up[:1000]) {
		t.Errorf("%d bytes came: %v", len(got), err)
	}
}

// If a receiver does not read, its sender blocks when the buffers are full.
func TestBackPressure(t *testing.T) {
	w := newWorld(t, network.Conditions{Down: network.Way{Buffer: 5000}})
	client, server, through := w.join()
	down := noise(20<<20, 3)
	wait := send(server, down, true)
	var last network.Flow
	same := 0
	testwait.True(t, "nothing moves any more", func() bool {
		_, flow := through.Stats()
		if same++; flow != last {
			last, same = flow, 0
		}
		return same == 50 && flow.Taken > 0
	})
	if last.Taken > 12<<20 || last.Taken-last.Delivered > 5000 {
		t.Errorf("without a reader %+v of %d bytes", last, len(down))
	}
	got, err := io.ReadAll(client)
	if err != nil || string(got) != string(down) {
		t.Errorf("%d bytes came: %v", len(got), err)
	}
	must(t, wait())
}

// Neither side of a half-open connection gets anything any more, not even the end of the other.
func TestHalfOpen(t *testing.T) {
	w := newWorld(t, network.Conditions{Up: network.Way{Delay: time.Hour}})
	client, server, through := w.join()
	must(t, send(client, noise(500, 1), false)())
	testwait.True(t, "something is under way", func() bool {
		up, _ := through.Stats()
		return up.Taken == 500
	})
	if n := w.proxy.HalfOpen(1); n != 1 {
		t.Fatalf("%d were chosen", n)
	}
	must(t, send(client, noise(2<<20, 1), true)())
	must(t, send(server, noise(1000, 1), false)())
	testwait.True(t, "all is swallowed, and the end", func() bool {
		up, down := through.Stats()
		heard, _ := through.Heard()
		return up.Lost == 500+2<<20 && down.Lost == 1000 && heard
	})
	if s := w.proxy.Stats(); s.Open != 1 || s.HalfOpen != 1 || s.Up.Delivered+s.Down.Delivered != 0 || s.Resets != 0 {
		t.Errorf("%+v", s)
	}
	must(t, w.proxy.Close())
	for _, side := range []*net.TCPConn{client, server} { // they get nothing from each other before
		if n, err := side.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %d bytes, %v", n, err)
		}
	}
}

// An end that was under way does not arrive either.
func TestHalfOpenHoldsEnds(t *testing.T) {
	w := newWorld(t, network.Conditions{Up: network.Way{Delay: time.Hour}})
	client, server, through := w.join()
	must(t, client.CloseWrite())
	testwait.True(t, "the end is under way", func() bool {
		heard, _ := through.Heard()
		return heard
	})
	through.HalfOpen()
	must(t, through.SetConditions(network.Conditions{}))
	must(t, send(server, noise(1000, 1), false)())
	testwait.True(t, "the other direction is half open too", func() bool {
		_, down := through.Stats()
		return down.Lost == 1000
	})
	must(t, w.proxy.Close())
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the target heard %v", err)
	}
}

// A half-open connection is over when both sides have ended.
func TestHalfOpenEnds(t *testing.T) {
	w := newWorld(t, network.Conditions{})
	for _, late := range []bool{false, true} {
		client, server, through := w.join()
		if !late {
			through.HalfOpen()
		} else { // both have ended, unknown to each other
			through.Stall()
		}
		must(t, client.Close())
		must(t, server.Close())
		if late {
			testwait.True(t, "both ends are known", func() bool {
				a, b := through.Heard()
				return a && b
			})
			through.HalfOpen()
		}
		testwait.True(t, "it is over", func() bool { return w.proxy.Stats().Open == 0 })
	}
	if s := w.proxy.Stats(); s.HalfOpen != 2 || s.Resets != 0 {
		t.Errorf("%+v", s)
	}
}

// Connections also become half open at random.
func TestChance(t *testing.T) {
	w := newWorld(t, network.Conditions{Reset: time.Millisecond})
	if err := refusal(w.proxy); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v", err)
	}
	testwait.True(t, "it is counted", func() bool { return w.proxy.Stats().Resets == 1 })

	must(t, w.proxy.SetConditions(network.Conditions{HalfOpen: time.Millisecond}))
	client := w.dial()
	testwait.True(t, "it is half open", func() bool { return w.proxy.Stats().HalfOpen == 1 })
	must(t, send(client, noise(100, 1), false)())
	testwait.True(t, "it swallows", func() bool { return w.proxy.Stats().Up.Lost == 100 })
}

// A reset reaches both sides; the same seed chooses the same connections.
func TestReset(t *testing.T) {
	var chosen [][]uint64
	for range 2 {
		w := newWorld(t, network.Conditions{Seed: 9})
		ends := map[uint64][]*net.TCPConn{}
		for range 20 {
			client, server, through := w.join()
			ends[through.Number()] = []*net.TCPConn{client, server}
		}
		n := w.proxy.Reset(0.5)
		var left []uint64
		for _, c := range w.proxy.Conns() {
			left = append(left, c.Number())
			must(t, send(ends[c.Number()][0], []byte("still there"), false)())
			expect(t, ends[c.Number()][1], []byte("still there"))
			delete(ends, c.Number())
		}
		for _, sides := range ends {
			for _, side := range sides {
				if _, err := side.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("a side got %v", err)
				}
			}
		}
		if s := w.proxy.Stats(); n == 0 || n == 20 || n+len(left) != 20 || s.Open != len(left) || s.Resets != uint64(n) {
			t.Errorf("%d were chosen, left %v, %+v", n, left, s)
		}
		chosen = append(chosen, left)
	}
	if !slices.Equal(chosen[0], chosen[1]) {
		t.Errorf("left %v, then %v", chosen[0], chosen[1])
	}
}

// The way in which one side ends is passed on to the other, behind the bytes under way.
func TestEndsPassOn(t *testing.T) {
	w := newWorld(t, network.Conditions{Down: network.Way{Delay: time.Millisecond, Jitter: 3 * time.Millisecond}})
	// A reset.
	client, server, _ := w.join()
	must(t, server.SetLinger(0))
	must(t, server.Close())
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("of a reset the client sees %v", err)
	}
	// A side that is gone while the other still writes to it.
	client, server, _ = w.join()
	must(t, send(server, noise(50_000, 1), false)())
	must(t, server.Close())
	if got, err := io.ReadAll(client); err != nil || string(got) != string(noise(50_000, 1)) {
		t.Errorf("%d bytes before the end: %v", len(got), err)
	}
	testwait.True(t, "writing to who is gone fails", func() bool {
		_, err := client.Write([]byte("?"))
		return err != nil
	})
	testwait.True(t, "both connections have ended", func() bool { return w.proxy.Stats().Open == 0 })
	if s := w.proxy.Stats(); s.Resets != 0 || s.Up.Lost == 0 {
		t.Errorf("%+v", s)
	}
}

// A refused client is reset at once, and the target gets no connection; the same if there is no target.
func TestRefuse(t *testing.T) {
	w := newWorld(t, network.Conditions{Refuse: true})
	if err := refusal(w.proxy); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("who is refused sees %v", err)
	}
	if s := w.proxy.Stats(); s.Refused != 1 || s.Accepted != 0 || len(w.accepted) != 0 {
		t.Errorf("%+v", s)
	}
	must(t, w.proxy.SetConditions(network.Conditions{}))
	_, _, through := w.join()
	if through.Number() != 0 || w.proxy.Conditions() != (network.Conditions{}) {
		t.Errorf("connection %d", through.Number())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, ln.Close())
	nobody, err := network.Listen("127.0.0.1:0", ln.Addr().String(), network.Conditions{})
	must(t, err)
	defer func() { must(t, nobody.Close()) }()
	if err := refusal(nobody); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a target: %v", err)
	}
	if s := nobody.Stats(); s.Failed != 1 || s.Accepted != 1 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

// Conditions can be changed on open connections, for one or for all.
func TestSetConditions(t *testing.T) {
	w := newWorld(t, network.Conditions{})
	client, server, through := w.join()
	other, otherServer, _ := w.join()
	hour := network.Conditions{Up: network.Way{Delay: time.Hour}}
	for name, set := range map[string]func(network.Conditions) error{"one": through.SetConditions, "all": w.proxy.SetConditions} {
		must(t, set(hour))
		if err := set(network.Conditions{Reset: -1}); err == nil || !strings.Contains(err.Error(), "reset after -1ns") {
			t.Errorf("%s: %v", name, err)
		}
		before, _ := settled(t, through)
		must(t, send(client, []byte("later"), false)())
		testwait.True(t, "it is under way", func() bool {
			flow, _ := through.Stats()
			return flow.Taken == before.Taken+5
		})
		if name == "one" {
			must(t, send(other, []byte("now"), false)())
			expect(t, otherServer, []byte("now"))
		}
		if flow, _ := through.Stats(); flow.Delivered != before.Delivered {
			t.Errorf("%s: %+v", name, flow)
		}
		must(t, set(network.Conditions{}))
		expect(t, server, []byte("later"))
	}
}

// Close ends connections in any state, and concurrent calls of Close wait.
func TestClose(t *testing.T) {
	w := newWorld(t, network.Conditions{})
	var waits []func() error
	for i := range 8 {
		client, server, through := w.join()
		switch i % 4 {
		case 0: // the sender waits for a side that does not read
			waits = append(waits, send(client, noise(20<<20, 1), false), send(server, noise(20<<20, 1), false))
		case 1:
			through.Stall()
			waits = append(waits, send(client, noise(20<<20, 1), false))
		case 2:
			through.HalfOpen()
		case 3:
			must(t, client.CloseWrite())
		}
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- w.proxy.Close() }()
	}
	must(t, errors.Join(testwait.Receive(t, closed), testwait.Receive(t, closed)))
	for _, wait := range waits {
		if wait() == nil {
			t.Error("a sender was not held up")
		}
	}
	if _, err := net.Dial("tcp", w.proxy.Addr().String()); err == nil {
		t.Error("it still listens")
	}
	must(t, w.proxy.SetConditions(network.Conditions{Up: network.Way{Delay: 1}}))
	if n := w.proxy.Reset(1) + w.proxy.HalfOpen(1) + len(w.proxy.Conns()); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestListenRefuses(t *testing.T) {
	for _, tt := range []struct {
		address, target string
		c               network.Conditions
		want            string
	}{
		{"", "127.0.0.1:1", network.Conditions{Reset: -1}, "network: reset after -1ns: use more than 0"},
		{"", "127.0.0.1", network.Conditions{}, `network: target "127.0.0.1" is not HOST:PORT`},
		{"127.0.0.1:x", "127.0.0.1:1", network.Conditions{}, "network: listen tcp"},
	} {
		if p, err := network.Listen(tt.address, tt.target, tt.c); err == nil || !strings.HasPrefix(err.Error(), tt.want) || p != nil {
			t.Errorf("%+v: %v, want %s", tt, err, tt.want)
		}
	}
}
