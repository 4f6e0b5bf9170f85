package transport_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// The options are on both ends, whatever made the listener and however a connection is accepted.
func TestOptions(t *testing.T) {
	o := &transport.Options{
		KeepAlive: 70 * time.Second, KeepAliveCount: 4, ReadBuffer: 16 << 10, SendBuffer: 32 << 10, NotSentLowat: 5000,
	}
	off := &transport.Options{Delay: true, KeepAlive: -1, KeepAliveCount: -1, ReadBuffer: -1, SendBuffer: -1, NotSentLowat: -1}
	type want struct{ level, name, value int }
	on := []want{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 70},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 70},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 4},
		{syscall.IPPROTO_TCP, transport.NotSentLowat, 5000},
		{syscall.SOL_SOCKET, syscall.SO_RCVBUF, 32 << 10},
		{syscall.SOL_SOCKET, syscall.SO_SNDBUF, 64 << 10},
	}
	for _, c := range []struct {
		name string
		o    *transport.Options
		want []want
	}{
		{"all", o, on},
		{"default", nil, []want{
			{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
			{syscall.IPPROTO_TCP, transport.NotSentLowat, 0},
		}},
		{"off", off, []want{
			{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0},
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 0},
			{syscall.IPPROTO_TCP, transport.NotSentLowat, 0},
		}},
		{"unix", o, on[len(on)-2:]},
	} {
		network, address := "tcp", "127.0.0.1:0"
		if c.name == "unix" {
			network = "unix"
		}
		test := func(name string, from func(testing.TB, string, string, *transport.Options) *transport.Listener, descriptor bool) {
			t.Run(c.name+" "+name, func(t *testing.T) {
				if network == "unix" {
					address = socketPath(t)
				}
				client, server := ends(t, from(t, network, address, c.o), c.o, descriptor)
				for _, w := range c.want {
					for _, fd := range []int{client, server} {
						got := getsockopt(t, fd, w.level, w.name)
						unbounded := w.value == 0 && got == -1 && w.name == transport.NotSentLowat // Multipath TCP returns it so
						if got != w.value && !unbounded {
							t.Errorf("option %d of level %d is %d, not %d (accepted: %v)", w.name, w.level, got, w.value, fd == server)
						}
					}
				}
			})
		}
		test("listen, conn", listen, false)
		test("listen, descriptor", listen, true)
		test("wrap, conn", wrap, false)
		test("wrap, descriptor", wrap, true)
	}
}

// ends returns the descriptors of both ends of a connection.
func ends(t *testing.T, l *transport.Listener, o *transport.Options, descriptor bool) (client, server int) {
	t.Helper()
	conn, err := transport.Dial(context.Background(), l.Addr().Network(), l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	return bare(t, conn), accept(t, l, descriptor)
}

// Connections from before the listener had the options have them too, and so have those of Multipath TCP. In the end no option has to be set any
// more on connections of plain TCP.
func TestOptionsOfAll(t *testing.T) {
	o := &transport.Options{KeepAlive: 70 * time.Second, KeepAliveCount: 4, NotSentLowat: 5000}
	want := []struct{ level, name, value int }{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 70},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 70},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 4},
		{syscall.IPPROTO_TCP, transport.NotSentLowat, 5000},
	}
	for _, c := range []struct {
		name                  string
		multipath, descriptor bool
		lacking               int // of plain TCP, in the end
	}{
		{"plain, descriptor", false, true, 0},
		{"plain, conn", false, false, 3}, // package net sets its own times
		{"multipath, descriptor", true, true, -2},
		{"multipath, conn", true, false, -2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lc net.ListenConfig
			lc.SetMultipathTCP(c.multipath)
			ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			dial := func(n int) {
				for i := range n {
					var d net.Dialer
					d.SetMultipathTCP(c.multipath && i%2 == 1)
					conn, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = conn.Close() })
				}
			}
			dial(4)
			l, err := transport.Wrap(ln, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			dial(20)
			for i := range 24 {
				fd := accept(t, l, c.descriptor)
				for _, w := range want {
					if got := getsockopt(t, fd, w.level, w.name); got != w.value && (!c.multipath || w.name != transport.NotSentLowat) {
						t.Errorf("connection %d: option %d of level %d is %d, not %d", i, w.name, w.level, got, w.value)
					}
				}
			}
			if got := l.Lacking(c.descriptor); got != c.lacking && c.lacking >= 0 {
				t.Errorf("%d options are set on each connection, not %d", got, c.lacking)
			}
		})
	}
}

// accept returns the descriptor of the next connection.
func accept(t *testing.T, l *transport.Listener, descriptor bool) int {
	t.Helper()
	if !descriptor {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return bare(t, conn)
	}
	d, err := l.AcceptDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.FD
}

// bare returns the descriptor of a connection.
func bare(t *testing.T, conn net.Conn) int {
	t.Helper()
	d, ok, err := transport.Detach(conn)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.FD
}

func TestReusePort(t *testing.T) {
	o := &transport.Options{ReusePort: true}
	first := listen(t, "tcp", "127.0.0.1:0", o)
	listen(t, "tcp", first.Addr().String(), o)
	if _, err := transport.Listen(context.Background(), "tcp", first.Addr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// A Unix socket counts waiting connections exactly: with a backlog of n, n+1 may wait.
func TestBacklog(t *testing.T) {
	l := listen(t, "unix", socketPath(t), &transport.Options{Backlog: 2})
	for i := range 4 {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			if i != 3 || !errors.Is(err, syscall.EAGAIN) {
				t.Error(i, err)
			}
			return
		}
		defer conn.Close()
	}
	t.Error("the backlog has no bound")
}
