package udp_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport/udp"
)

// bothWays runs a test with batches in one system call, if the system has them, and one datagram at a time.
func bothWays(t *testing.T, test func(t *testing.T, ready func(*udp.Conn) *udp.Conn)) {
	t.Run("batch", func(t *testing.T) {
		test(t, func(c *udp.Conn) *udp.Conn { return c })
	})
	t.Run("one by one", func(t *testing.T) {
		test(t, func(c *udp.Conn) *udp.Conn {
			udp.Slow(c)
			return c
		})
	})
}

// listenPacket listens, with a deadline so that no test hangs.
func listenPacket(t testing.TB, network, address string, o *udp.Options) *udp.Conn {
	t.Helper()
	c, err := udp.Listen(context.Background(), network, address, o)
	return bounded(t, c, err)
}

func dialPacket(t testing.TB, to net.Addr, o *udp.Options) *udp.Conn {
	t.Helper()
	c, err := udp.Dial(context.Background(), "udp", to.String(), o)
	return bounded(t, c, err)
}

func bounded(t testing.TB, c *udp.Conn, err error) *udp.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// addrOf returns the address to which a peer writes.
func addrOf(c *udp.Conn) netip.AddrPort {
	a := c.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// room makes n packets to read into.
func room(n, size int) []udp.Packet {
	ps := make([]udp.Packet, n)
	for i := range ps {
		ps[i].Data = make([]byte, 0, size)
	}
	return ps
}

// writeAll sends all datagrams, continues after refused ones, and returns the indexes of these.
func writeAll(t testing.TB, c *udp.Conn, ps []udp.Packet) (refused []int, causes []error) {
	t.Helper()
	for at := 0; at < len(ps); {
		n, err := c.WriteBatch(ps[at:])
		at += n
		var bad *udp.Error
		switch {
		case errors.As(err, &bad):
			refused, causes = append(refused, at), append(causes, err)
			at++
		case err != nil:
			t.Fatal(err)
		}
	}
	return refused, causes
}

// readAll reads n datagrams, in batches of 16.
func readAll(t testing.TB, c *udp.Conn, n int) (all []udp.Packet) {
	t.Helper()
	for len(all) < n {
		ps := room(min(16, n-len(all)), 2048)
		m, err := c.ReadBatch(ps)
		if err != nil || m < 1 || m > len(ps) {
			t.Fatalf("%d of %d: %d, %v", len(all), n, m, err)
		}
		all = append(all, ps[:m]...)
	}
	return all
}

// hosts are the loopback addresses of the families that this machine has.
func hosts(t testing.TB) []string {
	t.Helper()
	list := []string{"127.0.0.1"}
	if c, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		_ = c.Close()
		list = append(list, "::1")
	}
	return list
}

func TestPacketBatch(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		for _, host := range hosts(t) {
			server := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil))
			client := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil))
			connected := ready(dialPacket(t, server.LocalAddr(), nil))
			var ps, without []udp.Packet
			for i := range 40 {
				data := bytes.Repeat([]byte{byte(i)}, i*i) // the first is empty
				ps = append(ps, udp.Packet{Addr: addrOf(server), Data: data})
				without = append(without, udp.Packet{Data: data})
			}
			for _, from := range []struct {
				c  *udp.Conn
				ps []udp.Packet
			}{{client, ps}, {connected, without}} {
				if n, err := from.c.WriteBatch(from.ps); n != len(ps) || err != nil {
					t.Fatal(n, err)
				}
				for i, got := range readAll(t, server, len(ps)) {
					if got.Addr != addrOf(from.c) || !bytes.Equal(got.Data, ps[i].Data) || got.Truncated {
						t.Fatalf("%d: %+v", i, got)
					}
				}
			}
			in, out := server.Stats(), client.Stats()
			if in.ReadPackets != 80 || in.ReadBytes != 2*out.WrittenBytes || out.WrittenPackets != 40 || in.ReadCalls > 80 || in.Dropped != 0 {
				t.Errorf("%+v %+v", in, out)
			}
			if n, err := connected.TryWriteBatch(without); n != len(ps) || err != nil {
				t.Fatal(n, err)
			}
			readAll(t, server, len(ps))
			answer := []udp.Packet{{Addr: addrOf(connected), Data: []byte("answer")}}
			writeAll(t, server, answer)
			if got := readAll(t, connected, 1)[0]; got.Addr != addrOf(server) || string(got.Data) != "answer" {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A datagram is read into the memory up to the capacity. Of one that does not fit, the beginning is there.
func TestPacketTruncated(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		server := ready(listenPacket(t, "udp", "127.0.0.1:0", nil))
		client := ready(dialPacket(t, server.LocalAddr(), nil))
		writeAll(t, client, []udp.Packet{{Data: []byte("12345")}, {Data: []byte("123456")}, {Data: []byte("12")}, {Data: []byte("1")}, {}})
		ps := room(5, 5)
		ps[3].Data = nil
		for at := 0; at < len(ps); {
			n, err := server.ReadBatch(ps[at:])
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
		for i, want := range []string{"12345", "12345", "12", "", ""} {
			if string(ps[i].Data) != want || ps[i].Truncated != (i == 1 || i == 3) {
				t.Errorf("%d: %+v", i, ps[i])
			}
		}
		writeAll(t, client, []udp.Packet{{Data: []byte("123456")}})
		b := make([]byte, 3)
		if n, _, err := server.ReadFrom(b); n != 3 || err != nil || string(b) != "123" {
			t.Error(n, err)
		}
		if s := server.Stats(); s.Truncated != 3 || s.ReadBytes != 15 {
			t.Errorf("%+v", s)
		}
	})
}

// A socket of both families has peers of both, each with its own form of address.
func TestPacketMapped(t *testing.T) {
	if len(hosts(t)) < 2 {
		t.Log("the machine has no IPv6, what follows needs both families")
		return
	}
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		both := ready(listenPacket(t, "udp", "[::]:0", nil))
		port := addrOf(both).Port()
		four := ready(listenPacket(t, "udp4", "127.0.0.1:0", nil))
		six := ready(listenPacket(t, "udp6", "[::1]:0", nil))
		mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:127.0.0.1"), port)
		plain := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		writeAll(t, four, []udp.Packet{{Addr: plain, Data: []byte("4")}, {Addr: mapped, Data: []byte("4")}})
		writeAll(t, six, []udp.Packet{{Addr: netip.AddrPortFrom(netip.IPv6Loopback(), port), Data: []byte("6")}})
		got := readAll(t, both, 3)
		for i, want := range []netip.AddrPort{addrOf(four), addrOf(four), addrOf(six)} {
			if got[i].Addr != want {
				t.Error(got[i].Addr, want)
			}
		}
		back := netip.AddrPortFrom(netip.AddrFrom16(addrOf(four).Addr().As16()), addrOf(four).Port())
		for _, wait := range []bool{true, false} {
			send := both.WriteBatch
			if !wait {
				send = both.TryWriteBatch
			}
			if n, err := send([]udp.Packet{{Addr: back}, {Addr: got[0].Addr}, {Addr: got[2].Addr}}); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			readAll(t, four, 2)
			readAll(t, six, 1)
		}
		refused, _ := writeAll(t, four, []udp.Packet{{Addr: got[0].Addr}, {Addr: got[2].Addr}, {}, {Addr: plain}})
		if !slices.Equal(refused, []int{1, 2}) {
			t.Error(refused)
		}
	})
}

// A datagram that cannot be sent does not affect the others.
func TestPacketRefused(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		server := ready(listenPacket(t, "udp", "127.0.0.1:0", nil))
		client := ready(listenPacket(t, "udp", "127.0.0.1:0", nil))
		to := addrOf(server)
		ps := []udp.Packet{
			{Addr: to, Data: []byte("a")},
			{Addr: to, Data: make([]byte, 1<<16)},
			{Addr: to, Data: []byte("b")},
			{Data: []byte("nowhere")},
			{Addr: netip.MustParseAddrPort("127.255.255.255:9"), Data: []byte("broadcast")},
			{Addr: to, Data: []byte("c")},
		}
		refused, causes := writeAll(t, client, ps)
		if !slices.Equal(refused, []int{1, 3, 4}) {
			t.Fatal(refused, causes)
		}
		for i, want := range []error{syscall.EMSGSIZE, syscall.EDESTADDRREQ, syscall.EACCES} {
			var bad *udp.Error
			if !errors.As(causes[i], &bad) || bad.Addr != ps[refused[i]].Addr || bad.Op != "write" || !errors.Is(causes[i], want) {
				t.Errorf("%v, not %v", causes[i], want)
			}
			if strings.Count(bad.Error(), "write packet") != 1 || strings.Contains(bad.Error(), "->") {
				t.Error("dressed twice:", bad)
			}
		}
		if n, err := client.TryWriteBatch(ps); n != 1 || !errors.Is(err, syscall.EMSGSIZE) {
			t.Error(n, err)
		}
		var got string
		for _, p := range readAll(t, server, 4) {
			got += string(p.Data)
		}
		if got != "abca" || client.Stats().Refused != 4 || client.Stats().WrittenPackets != 4 {
			t.Errorf("%q %+v", got, client.Stats())
		}
	})
}

// closedPort returns an address without a listener.
func closedPort(t *testing.T) net.Addr {
	t.Helper()
	c := listenPacket(t, "udp", "127.0.0.1:0", nil)
	_ = c.Close()
	return c.LocalAddr()
}

// A closed port of the peer does not end reading, unless the reader asks for peer errors.
func TestPacketConnRefused(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		to := closedPort(t)
		for _, wants := range []bool{false, true} {
			c := ready(dialPacket(t, to, &udp.Options{PeerErrors: wants}))
			writeAll(t, c, []udp.Packet{{Data: []byte("x")}})
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if wants {
				var bad *udp.Error
				n, err := c.ReadBatch(room(1, 1))
				if n != 0 || !errors.As(err, &bad) || !errors.Is(err, syscall.ECONNREFUSED) || bad.Addr.String() != to.String() || bad.Op != "read" {
					t.Error(n, err)
				}
				continue
			}
			// A peer opens the port, and the same socket receives from it.
			peer := ready(listenPacket(t, "udp", to.String(), nil))
			writeAll(t, peer, []udp.Packet{{Addr: addrOf(c), Data: []byte("y")}})
			if got := readAll(t, c, 1); string(got[0].Data) != "y" || c.Stats().Passed > 1 {
				t.Errorf("%+v %+v", got, c.Stats())
			}
			_ = peer.Close()
		}
		// Writing returns the error.
		c := ready(dialPacket(t, to, nil))
		for range 1000 {
			n, err := c.WriteBatch([]udp.Packet{{Data: []byte("x")}})
			if err == nil {
				continue // the answer is on its way
			}
			if n != 0 || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error(n, err)
			}
			return
		}
		t.Error("nobody listens, and nobody says so")
	})
}

// A server on an unconnected socket gets no errors about closed peers.
func TestPacketServerSurvives(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		server := ready(listenPacket(t, "udp", "127.0.0.1:0", &udp.Options{PeerErrors: true}))
		gone := netip.MustParseAddrPort(closedPort(t).String())
		client := ready(dialPacket(t, server.LocalAddr(), nil))
		for range 3 {
			if refused, causes := writeAll(t, server, []udp.Packet{{Addr: gone}, {Addr: gone}, {Addr: gone}}); refused != nil {
				t.Fatal(causes)
			}
			writeAll(t, client, []udp.Packet{{Data: []byte("x")}})
			readAll(t, server, 1)
		}
	})
}

func TestPacketDeadline(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		c := ready(listenPacket(t, "udp", "127.0.0.1:0", nil))
		isDeadline := func(op string, err error) {
			t.Helper()
			var net *net.OpError
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &net) || !net.Timeout() || net.Op != op {
				t.Errorf("%s: %v", op, err)
			}
		}
		waiting := make(chan error)
		go func() {
			_, err := c.ReadBatch(room(4, 10))
			waiting <- err
		}()
		past := time.Unix(1, 0)
		_ = c.SetDeadline(past) // before or during the wait
		isDeadline("read", testwait.Receive(t, waiting))
		_, err := c.ReadBatch(room(1, 1))
		isDeadline("read", err)
		_, _, err = c.ReadFrom(make([]byte, 1))
		isDeadline("read", err)
		to := []udp.Packet{{Addr: addrOf(c), Data: []byte("x")}}
		n, err := c.WriteBatch(to)
		isDeadline("write", err)
		m, err := c.TryWriteBatch(to) // has no deadline
		if n != 0 || m != 1 || err != nil {
			t.Error(n, m, err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		readAll(t, c, 1)
		if s := c.Stats(); s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Close ends every waiting call. Afterwards every method returns net.ErrClosed.
func TestPacketClose(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		c := ready(listenPacket(t, "udp", "127.0.0.1:0", nil))
		var wg sync.WaitGroup
		errs := make(chan error, 6)
		for i := range 3 {
			wg.Go(func() {
				for {
					if _, err := c.ReadBatch(room(1+i, 10)); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		to := addrOf(c)
		for i := range 3 {
			wg.Go(func() {
				ps := make([]udp.Packet, 4)
				for j := range ps {
					ps[j] = udp.Packet{Addr: to, Data: []byte("x")}
				}
				send := c.WriteBatch
				if i == 2 {
					send = c.TryWriteBatch
				}
				for {
					if _, err := send(ps); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		testwait.Return(t, wg.Wait)
		close(errs)
		for err := range errs {
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		closed(t, c)
	})
}

func closed(t *testing.T, c *udp.Conn) {
	t.Helper()
	stats := c.Stats()
	_, read := c.ReadBatch(room(1, 1))
	_, _, from := c.ReadFrom(nil)
	_, write := c.WriteBatch([]udp.Packet{{Addr: addrOf(c)}})
	_, nowhere := c.WriteBatch(make([]udp.Packet, 1))
	_, try := c.TryWriteBatch([]udp.Packet{{Addr: addrOf(c)}})
	_, to := c.WriteTo(nil, c.LocalAddr())
	_, _, buffers := c.Buffers()
	join := c.JoinGroup(netip.MustParseAddr("239.1.2.3"), nil, netip.Addr{})
	for i, err := range []error{read, from, write, nowhere, try, to, buffers, join, c.SetDeadline(time.Time{})} {
		if !errors.Is(err, net.ErrClosed) {
			t.Error(i, err)
		}
	}
	if c.Close() != nil || c.LocalAddr() == nil || c.Stats() != stats {
		t.Error(c.LocalAddr(), c.Stats(), stats)
	}
}
