package transport_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

func dial(t testing.TB, addr net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func getsockopt(t testing.TB, fd, level, name int) int {
	t.Helper()
	n, err := syscall.GetsockoptInt(fd, level, name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fcntl(t testing.TB, fd, cmd int) int {
	t.Helper()
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(cmd), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return int(n)
}

// checkBare checks that a descriptor is usable by an event loop.
func checkBare(t testing.TB, d transport.Descriptor) {
	t.Helper()
	if fcntl(t, d.FD, syscall.F_GETFL)&syscall.O_NONBLOCK == 0 {
		t.Error("the descriptor blocks")
	}
	if fcntl(t, d.FD, syscall.F_GETFD)&syscall.FD_CLOEXEC == 0 {
		t.Error("the descriptor is inherited by children")
	}
}

// anyAddress is an address without a listener.
func anyAddress(t testing.TB, network string) string {
	if network == "unix" {
		return socketPath(t)
	}
	return "127.0.0.1:0"
}

func TestAcceptDescriptorAddresses(t *testing.T) {
	for _, c := range []struct{ name, listen, dial string }{
		{"4", "127.0.0.1:0", "127.0.0.1"},
		{"6", "[::1]:0", "::1"},
		{"wildcard 4", "0.0.0.0:0", "127.0.0.2"},
		{"wildcard both, 4", "[::]:0", "127.0.0.3"},
		{"wildcard both, 6", "[::]:0", "::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := wrap(t, "tcp", c.listen, nil)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			to := netip.MustParseAddrPort(net.JoinHostPort(c.dial, port))
			client := dial(t, net.TCPAddrFromAddrPort(to))
			d, err := l.AcceptDescriptor()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			checkBare(t, d)
			if d.Unix || d.Local != to || d.Remote.String() != client.LocalAddr().String() {
				t.Errorf("accepted %+v, the client has %v and %v", d, client.LocalAddr(), client.RemoteAddr())
			}
		})
	}
}

// The zone of a link-local address is kept. The loopback interface has no such address, so the test makes one.
func TestZone(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	a := [16]byte{0: 0xfe, 1: 0x80, 15: 7}
	got := transport.AddrPort(&syscall.SockaddrInet6{Port: 9, ZoneId: uint32(loopback.Index), Addr: a})
	if got != netip.MustParseAddrPort("[fe80::7%lo]:9") {
		t.Error(got)
	}
	got = transport.AddrPort(&syscall.SockaddrInet6{Port: 9, ZoneId: 1 << 30, Addr: a})
	if got != netip.MustParseAddrPort("[fe80::7%1073741824]:9") {
		t.Error(got)
	}
}

func TestAcceptDescriptorUnix(t *testing.T) {
	path := socketPath(t)
	l := wrap(t, "unix", path, &transport.Options{ReadBuffer: 8 << 10, SendBuffer: 16 << 10})
	client := dial(t, l.Addr())
	d, err := l.AcceptDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	checkBare(t, d)
	if !d.Unix || d.Remote.IsValid() || d.Local.IsValid() {
		t.Errorf("accepted %+v", d)
	}
	if n := getsockopt(t, d.FD, syscall.SOL_SOCKET, syscall.SO_SNDBUF); n != 32<<10 {
		t.Errorf("send buffer is %d", n)
	}
	if n := getsockopt(t, d.FD, syscall.SOL_SOCKET, syscall.SO_RCVBUF); n != 16<<10 {
		t.Errorf("read buffer is %d", n)
	}
	if _, err := syscall.Write(d.FD, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 5)
	if _, err := io.ReadFull(client, p); err != nil || string(p) != "hello" {
		t.Fatal(string(p), err)
	}
}

// Several calls may wait at once. All return at Close, and so does every later call.
func TestAcceptDescriptorClose(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := wrap(t, network, anyAddress(t, network), nil)
			const waiters = 3
			ds, errs := make(chan transport.Descriptor), make(chan error, waiters)
			for range waiters {
				go func() {
					for {
						d, err := l.AcceptDescriptor()
						if err != nil {
							errs <- err
							return
						}
						ds <- d
					}
				}()
			}
			for range 10 {
				client := dial(t, l.Addr())
				d := testwait.Receive(t, ds)
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			}
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			for range waiters {
				if err := testwait.Receive(t, errs); !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "accept "+network) {
					t.Error(err)
				}
			}
			if _, err := l.AcceptDescriptor(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if _, err := net.Dial(network, l.Addr().String()); err == nil {
				t.Error("the socket still listens")
			}
		})
	}
}

func TestWrapOther(t *testing.T) {
	l, err := transport.Wrap(struct{ net.Listener }{wrap(t, "tcp", "127.0.0.1:0", nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.Plain() {
		t.Error("a listener of an unknown kind is plain")
	}
	if _, err := l.AcceptDescriptor(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	client := dial(t, l.Addr())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.RemoteAddr().String() != client.LocalAddr().String() {
		t.Error(conn.RemoteAddr())
	}
}

func TestDetachAttach(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := wrap(t, network, anyAddress(t, network), &transport.Options{Delay: true, KeepAlive: -1})
			client := dial(t, l.Addr())
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			d, ok, err := transport.Detach(conn)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			defer d.Close()
			checkBare(t, d)
			if network == "tcp" && (d.Remote.String() != client.LocalAddr().String() || d.Local.String() != l.Addr().String()) {
				t.Errorf("detached %+v", d)
			}
			if d.Unix != (network == "unix") {
				t.Errorf("detached %+v", d)
			}
			if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection was left open: %v", err)
			}

			again, err := transport.Attach(d)
			if err != nil {
				t.Fatal(err)
			}
			if network == "tcp" {
				if getsockopt(t, d.FD, syscall.IPPROTO_TCP, syscall.TCP_NODELAY) != 0 ||
					getsockopt(t, d.FD, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) != 0 {
					t.Error("looking at a descriptor changed its options")
				}
			}
			if _, err := again.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 5)
			if _, err := io.ReadFull(client, p); err != nil || string(p) != "hello" {
				t.Fatal(string(p), err)
			}
			// Closing the attached connection leaves the descriptor open.
			_ = again.Close()
			if _, err := syscall.Write(d.FD, []byte("world")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(client, p); err != nil || string(p) != "world" {
				t.Fatal(string(p), err)
			}
		})
	}
}

// A duplicate is the same socket with the same addresses. The connection stays open.
func TestDuplicate(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := wrap(t, network, anyAddress(t, network), nil)
			client := dial(t, l.Addr())
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			d, ok, err := transport.Duplicate(conn)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			checkBare(t, d)
			if d.Unix != (network == "unix") || !d.Unix && (d.Remote.String() != client.LocalAddr().String() || d.Local.String() != l.Addr().String()) {
				t.Errorf("the duplicate is %+v", d)
			}
			if _, err := syscall.Write(d.FD, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("world")); err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 10)
			if _, err := io.ReadFull(client, p); err != nil || string(p) != "helloworld" {
				t.Fatal(string(p), err)
			}
		})
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok, err := transport.Duplicate(a); ok || err != nil {
		t.Error(ok, err)
	}
}

func TestDetachOther(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok, err := transport.Detach(a); ok || err != nil {
		t.Error(ok, err)
	}
	l := wrap(t, "tcp", "127.0.0.1:0", nil)
	conn := dial(t, l.Addr())
	_ = conn.Close()
	if _, ok, err := transport.Detach(conn); !ok || err == nil {
		t.Error("a closed connection was detached", ok, err)
	}
}

// After the header the underlying socket can be taken, and no byte is lost.
func TestDetachBehindProxy(t *testing.T) {
	l := listen(t, "unix", socketPath(t), &transport.Options{Proxy: new(transport.Proxy)})
	client, server := connect(t, l, nil)
	write(t, client, headerV1(proxyFrom, proxyTo)+"hello")
	behind := server.(*transport.ProxyConn)
	if err := behind.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	bare, _, ok := behind.Plain()
	if !ok {
		t.Fatal("not plain")
	}
	d, ok, err := transport.Detach(bare)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer d.Close()
	p := make([]byte, 10)
	if n, err := syscall.Read(d.FD, p); err != nil || string(p[:n]) != "hello" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if behind.RemoteAddr().String() != proxyFrom.String() {
		t.Error(behind.RemoteAddr())
	}
}
