package udp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport/udp"
)

// option returns an option of the kernel.
func option(t *testing.T, c *udp.Conn, level, name int) int {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n, inner := 0, error(nil)
	if err := rc.Control(func(fd uintptr) { n, inner = syscall.GetsockoptInt(int(fd), level, name) }); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
	return n
}

func loopback(t *testing.T) *net.Interface {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifi := range list {
		if ifi.Flags&net.FlagLoopback != 0 {
			return &ifi
		}
	}
	t.Fatal("no loopback interface")
	return nil
}

func TestPacketOptions(t *testing.T) {
	o := &udp.Options{
		ReadBuffer: 20000, WriteBuffer: 30000, ReusePort: true, ReuseAddress: true, Broadcast: true, TTL: 7, TOS: 0xb8, DontFragment: true,
		MulticastInterface: loopback(t), MulticastTTL: 9, NoMulticastLoop: true,
	}
	type want struct{ level, name, value int }
	common := []want{
		{syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1},
		{syscall.SOL_SOCKET, syscall.SO_BROADCAST, 1},
	}
	four := []want{
		{syscall.IPPROTO_IP, syscall.IP_TTL, 7},
		{syscall.IPPROTO_IP, syscall.IP_TOS, 0xb8},
		{syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_DO},
		{syscall.IPPROTO_IP, syscall.IP_MULTICAST_TTL, 9},
		{syscall.IPPROTO_IP, syscall.IP_MULTICAST_LOOP, 0},
	}
	six := []want{
		{syscall.IPPROTO_IPV6, syscall.IPV6_UNICAST_HOPS, 7},
		{syscall.IPPROTO_IPV6, syscall.IPV6_TCLASS, 0xb8},
		{syscall.IPPROTO_IPV6, syscall.IPV6_MTU_DISCOVER, syscall.IPV6_PMTUDISC_DO},
		{syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_HOPS, 9},
		{syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_LOOP, 0},
		{syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_IF, o.MulticastInterface.Index},
	}
	for _, host := range hosts(t) {
		list := append(common[:2:2], four...)
		if host == "::1" {
			list = append(list, six...)
		}
		c := listenPacket(t, "udp", net.JoinHostPort(host, "0"), o)
		for _, c := range []*udp.Conn{c, dialPacket(t, c.LocalAddr(), o)} {
			for _, w := range list {
				if got := option(t, c, w.level, w.name); got != w.value {
					t.Errorf("%s: option %d of level %d is %d, not %d", host, w.name, w.level, got, w.value)
				}
			}
			if r, w, err := c.Buffers(); r != 40000 || w != 60000 || err != nil {
				t.Error(r, w, err)
			}
		}
		listenPacket(t, "udp", c.LocalAddr().String(), o)
		off := listenPacket(t, "udp", net.JoinHostPort(host, "0"), &udp.Options{MulticastTTL: -1, ReadBuffer: -1})
		if n := option(t, off, syscall.IPPROTO_IP, syscall.IP_MULTICAST_TTL); n != 0 {
			t.Error(n)
		}
		if _, err := udp.Listen(context.Background(), "udp", off.LocalAddr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
	}
}

// With the option a broadcast is sent. TestPacketRefused checks that it is refused without.
func TestPacketBroadcast(t *testing.T) {
	server := listenPacket(t, "udp4", "0.0.0.0:0", nil)
	client := listenPacket(t, "udp4", "127.0.0.1:0", &udp.Options{Broadcast: true})
	to := netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), addrOf(server).Port())
	writeAll(t, client, []udp.Packet{{Addr: to, Data: []byte("to all")}})
	if got := readAll(t, server, 1)[0]; string(got.Data) != "to all" || got.Addr != addrOf(client) {
		t.Errorf("%+v", got)
	}
}

// A socket that has joined a group receives the datagrams to it. A socket on the same port of the same machine that has not joined, or has left,
// does not.
func TestPacketMulticast(t *testing.T) {
	lo := loopback(t)
	reuse := &udp.Options{ReuseAddress: true}
	sender := listenPacket(t, "udp4", "127.0.0.1:0", &udp.Options{MulticastInterface: lo, MulticastTTL: -1})
	one := listenPacket(t, "udp4", "0.0.0.0:0", reuse)
	port := addrOf(one).Port()
	two := listenPacket(t, "udp4", "0.0.0.0:"+strconv.Itoa(int(port)), reuse)
	other := listenPacket(t, "udp4", "0.0.0.0:"+strconv.Itoa(int(port)), reuse)
	group, second := netip.MustParseAddr("239.255.77.1"), netip.MustParseAddr("232.1.77.2")
	here, elsewhere := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.9")
	send := func(text string, to netip.Addr) {
		t.Helper()
		refused, causes := writeAll(t, sender, []udp.Packet{{Addr: netip.AddrPortFrom(to, port), Data: []byte(text)}})
		if refused != nil {
			t.Fatal(causes)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	receives := func(c *udp.Conn, want string) {
		t.Helper()
		if got := readAll(t, c, 1)[0]; string(got.Data) != want || got.Addr != addrOf(sender) {
			t.Errorf("%q from %v, not %q", got.Data, got.Addr, want)
		}
	}
	must(one.JoinGroup(group, lo, netip.Addr{}))
	must(two.JoinGroup(group, lo, netip.Addr{}))
	must(other.JoinGroup(second, lo, here))
	send("both", group)
	receives(one, "both")
	receives(two, "both")
	must(one.LeaveGroup(group, lo, netip.Addr{}))
	send("two only", group)
	receives(two, "two only")
	send("from here", second)
	receives(other, "from here")
	must(one.JoinGroup(second, lo, elsewhere)) // from a host that sends nothing
	send("again", second)
	receives(other, "again")
	must(one.JoinGroup(group, lo, netip.Addr{}))
	send("last", group)
	receives(one, "last") // and no datagram that was sent meanwhile
	receives(two, "last")
	if err := two.LeaveGroup(second, lo, here); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error(err)
	}
}

// Linux sends no datagrams to IPv6 groups through the loopback interface. So the test checks the kernel's list of groups.
func TestPacketMulticast6(t *testing.T) {
	lo := loopback(t)
	if len(hosts(t)) < 2 {
		t.Log("the machine has no IPv6, and so no list of groups")
		return
	}
	joined := func(group string) bool {
		t.Helper()
		list, err := os.ReadFile("/proc/net/igmp6")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(list)) {
			if f := strings.Fields(line); len(f) > 2 && f[1] == lo.Name && f[2] == group {
				return true
			}
		}
		return false
	}
	c := listenPacket(t, "udp6", "[::]:0", nil)
	const plain, specific = "ff010000000000000000000000077001", "ff310000000000000000000000077002"
	group, ssm, source := netip.MustParseAddr("ff01::7:7001"), netip.MustParseAddr("ff31::7:7002"), netip.IPv6Loopback()
	for _, err := range []error{
		c.JoinGroup(group.WithZone(lo.Name), nil, netip.Addr{}), // the zone names the interface
		c.JoinGroup(ssm, lo, source),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !joined(plain) || !joined(specific) {
		t.Error("not joined", joined(plain), joined(specific))
	}
	for _, err := range []error{c.LeaveGroup(group, lo, netip.Addr{}), c.LeaveGroup(ssm, lo, source)} {
		if err != nil {
			t.Error(err)
		}
	}
	if joined(plain) || joined(specific) {
		t.Error("not left", joined(plain), joined(specific))
	}
	if err := c.LeaveGroup(group, lo, netip.Addr{}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error("left twice", err)
	}
	if err := c.JoinGroup(group, lo, netip.Addr{}); err != nil {
		t.Error(err)
	}
	if _ = c.Close(); joined(plain) {
		t.Error("Close does not leave")
	}
}

// Dropped datagrams are counted, so that every datagram is accounted for.
func TestPacketDrops(t *testing.T) {
	server := listenPacket(t, "udp", "127.0.0.1:0", &udp.Options{ReadBuffer: 1})
	client := dialPacket(t, server.LocalAddr(), nil)
	sent, received := uint64(0), uint64(0)
	send := func() {
		writeAll(t, client, []udp.Packet{{Data: make([]byte, 100)}})
		sent++
	}
	for server.Stats().Dropped == 0 {
		if send(); sent > 100_000 {
			t.Fatal("no bound")
		}
	}
	for received+server.Stats().Dropped != sent {
		send() // something arrives: this datagram or an earlier one
		n, err := server.ReadBatch(room(64, 100))
		if err != nil {
			t.Fatal(err, sent, received, server.Stats())
		}
		received += uint64(n)
	}
	last := server.Stats()
	_ = server.Close()
	if server.Stats() != last {
		t.Error(server.Stats(), last)
	}
}

func TestPacketDropsCount(t *testing.T) {
	for _, c := range []struct {
		said []uint32
		want uint64
	}{
		{nil, 0},
		{[]uint32{0, 5, 5, 7}, 7},
		{[]uint32{7, 5, 8}, 8}, // 5 is older and arrived later
		{[]uint32{1 << 30, 2 << 30, 3 << 30, 2}, 1<<32 + 2},
	} {
		if got := udp.Drops(c.said...); got != c.want {
			t.Error(c.said, got, c.want)
		}
	}
}

// If the buffer is full, TryWriteBatch returns at once, and WriteBatch waits for the deadline, for Close, or for room.
func TestPacketFull(t *testing.T) {
	server := listenPacket(t, "udp", "127.0.0.1:0", nil)
	ps := []udp.Packet{{Addr: addrOf(server), Data: []byte("x")}, {Addr: addrOf(server), Data: []byte("y")}}
	start := func() (*udp.Conn, func(), chan error) {
		c := listenPacket(t, "udp", "127.0.0.1:0", nil)
		empty := udp.Fill(c)
		failed := make(chan error, 1)
		go func() {
			n, err := c.WriteBatch(ps)
			if err == nil && n != len(ps) {
				err = errors.New("neither all nor an error")
			}
			failed <- err
		}()
		if n, err := c.TryWriteBatch(ps); n != 0 || err != nil || c.Stats().Full != 1 {
			t.Error(n, err, c.Stats())
		}
		return c, empty, failed
	}
	c, _, failed := start()
	_ = c.SetWriteDeadline(time.Unix(1, 0))
	if err := testwait.Receive(t, failed); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	c, _, failed = start()
	_ = c.Close()
	if err := testwait.Receive(t, failed); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c, empty, failed := start()
	empty()
	for done := false; !done; { // the kernel wakes a waiting writer when a datagram has left, so some must leave
		if n, err := c.TryWriteBatch(ps); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		readAll(t, server, 2)
		select {
		case err := <-failed:
			if err != nil {
				t.Error(err)
			}
			done = true
		default:
		}
	}
	readAll(t, server, 2)
}

// Errors of the system calls, each at the first of two tries.
func TestPacketInterrupt(t *testing.T) {
	for _, c := range []struct {
		errno       syscall.Errno
		read, write bool // fails
		slow        bool
		passed      uint64
	}{
		{errno: syscall.EINTR},
		{errno: syscall.ENOSYS, slow: true},
		{errno: syscall.ECONNREFUSED, write: true, passed: 1},
		{errno: syscall.EHOSTUNREACH, write: true, passed: 1},
		{errno: syscall.ENOMEM, read: true, write: true},
		{errno: syscall.EPERM, read: true, write: true},
	} {
		t.Run(c.errno.Error(), func(t *testing.T) {
			conn := listenPacket(t, "udp", "127.0.0.1:0", nil)
			udp.Interrupt(conn, c.errno)
			ps := []udp.Packet{{Addr: addrOf(conn), Data: []byte("x")}}
			n, err := conn.WriteBatch(ps)
			var bad *udp.Error
			if c.write != errors.As(err, &bad) || c.write != (n == 0) || c.write && !errors.Is(err, c.errno) {
				t.Fatal(n, err)
			}
			if c.write {
				if n, err := conn.WriteBatch(ps); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			in := room(2, 2)
			n, err = conn.ReadBatch(in)
			if c.read != errors.Is(err, c.errno) || c.read != (n == 0) || errors.As(err, &bad) && c.read {
				t.Fatal(n, err)
			}
			if s := conn.Stats(); s.Passed != c.passed || udp.IsSlow(conn) != c.slow {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestPacketAllocations(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		for _, host := range hosts(t) {
			server := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil))
			client := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil))
			out, in := make([]udp.Packet, 32), room(32, 100)
			for i := range out {
				out[i] = udp.Packet{Addr: addrOf(server), Data: make([]byte, 100)}
			}
			if n := testing.AllocsPerRun(100, func() {
				n, err := client.WriteBatch(out)
				for n > 0 && err == nil {
					var m int
					m, err = server.ReadBatch(in)
					n -= m
				}
				if err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s: %v allocations", host, n)
			}
		}
	})
}

func TestPacketLayout(t *testing.T) {
	const word = strconv.IntSize / 8
	if udp.HeaderSize != 32*word/4 {
		t.Error(udp.HeaderSize)
	}
	recv, send, getsockopt := udp.CallNumbers()
	if recv != syscall.SYS_RECVMMSG || send == 0 || getsockopt == 0 {
		t.Error(recv, send, getsockopt)
	}
	group, source := netip.MustParseAddr("232.1.2.3"), netip.MustParseAddr("10.0.0.1")
	b := udp.GroupRequest(group, source)
	if len(b) != word+256 || netip.AddrFrom4([4]byte(b[word+4:])) != group || netip.AddrFrom4([4]byte(b[word+128+4:])) != source {
		t.Error(b)
	}
	if b := udp.GroupRequest(netip.MustParseAddr("ff02::5"), netip.Addr{}); len(b) != word+128 ||
		binary.NativeEndian.Uint16(b[word:]) != syscall.AF_INET6 || b[word+8] != 0xff || b[word+23] != 5 {
		t.Error(b)
	}
	rapid.Check(t, func(t *rapid.T) {
		var ip [16]byte
		copy(ip[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ip"))
		port, scope := rapid.Uint16().Draw(t, "port"), rapid.Uint32().Draw(t, "scope")
		four := netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[:])), port)
		six := netip.AddrPortFrom(netip.AddrFrom16(ip), port)
		if got, _ := udp.AddrRoundTrip(four, false, 0); got != four {
			t.Fatal(got, four)
		}
		if got, s := udp.AddrRoundTrip(six, true, scope); got != six && !six.Addr().Is4In6() || s != scope {
			t.Fatal(got, six, s, scope)
		}
		if got, s := udp.AddrRoundTrip(four, true, scope); got != four || s != 0 {
			t.Fatal(got, four, s)
		}
	})
}
