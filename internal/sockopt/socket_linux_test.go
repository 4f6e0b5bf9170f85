package sockopt_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// option reads an option of a socket.
func option(t *testing.T, c syscall.Conn, level, name int) (value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { value, failed = syscall.GetsockoptInt(int(fd), level, name) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return value
}

// The sockets of listeners, accepted connections and dialed connections have buffers of the requested size, which the kernel doubles.
func TestControl(t *testing.T) {
	control := sockopt.Control(sockopt.Options{Receive: 9000, Send: 7000, BindNoPort: true})
	lc := net.ListenConfig{Control: control}
	ln, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d := net.Dialer{Control: control, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client, err := d.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, c := range map[string]any{"listener": ln, "client": client, "server": server} {
		receive := option(t, c.(syscall.Conn), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		send := option(t, c.(syscall.Conn), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
		if receive != 18_000 || send != 14_000 {
			t.Errorf("%s: receive %d, send %d", name, receive, send)
		}
	}
	const ipBindAddressNoPort = 24
	if option(t, client.(syscall.Conn), syscall.IPPROTO_IP, ipBindAddressNoPort) != 1 {
		t.Error("the port was not to be chosen late")
	}
}

// Set sets options on an existing socket, and returns an error for a closed one.
func TestSet(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := ln.(*net.TCPListener)
	if err := sockopt.Set(l, sockopt.Options{NotSent: 12345}); err != nil {
		t.Error(err)
	}
	if n := option(t, l, syscall.IPPROTO_TCP, sockopt.NotSentLowat); n != 12345 {
		t.Errorf("%d bytes", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := sockopt.Set(l, sockopt.Options{NotSent: 12345}); err == nil {
		t.Error("it was set on a closed socket")
	}
}

func TestNothing(t *testing.T) {
	if sockopt.Control(sockopt.Options{}) != nil {
		t.Error("there is something to set")
	}
	if n := sockopt.FileLimit(); n < 10 || n > sockopt.Unlimited {
		t.Errorf("%d open files", n)
	}
}

// Unwrap finds a connection through a few wrappers with a method NetConn.
func TestUnder(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	var conn net.Conn = here
	for range 4 {
		conn = wrapper{conn}
	}
	if _, ok := sockopt.Unwrap[*net.TCPConn](conn); ok {
		t.Error("a pipe is a TCP connection")
	}
	if w, ok := sockopt.Unwrap[wrapper](conn); !ok || w != conn {
		t.Error("the outermost is not found first")
	}
	if _, ok := sockopt.Unwrap[interface{ Nothing() }](endless{here}); ok {
		t.Error("found")
	}
}

type wrapper struct{ net.Conn }

func (w wrapper) NetConn() net.Conn { return w.Conn }

// endless is a wrapper that wraps itself.
type endless struct{ net.Conn }

func (e endless) NetConn() net.Conn { return e }
