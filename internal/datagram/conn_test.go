package datagram_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport/udp"
)

// plain hides the methods of a *net.UDPConn that net.PacketConn does not have.
type plain struct{ net.PacketConn }

// named is a socket whose addresses are not IP addresses.
type named struct{ net.PacketConn }

type name string

func (name) Network() string  { return "names" }
func (n name) String() string { return string(n) }

func (named) ReadFrom(b []byte) (int, net.Addr, error) {
	return copy(b, "from a name"), name("peer"), nil
}

func (named) WriteTo(b []byte, to net.Addr) (int, error) {
	if to != name("peer") {
		return 0, fmt.Errorf("sent to %v", to)
	}
	return len(b), nil
}

func listen(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Sockets of every kind send and receive, return at their deadlines, and end at Close.
func TestConn(t *testing.T) {
	for what, wrap := range map[string]func(t *testing.T) net.PacketConn{
		"batches": func(t *testing.T) net.PacketConn {
			pc, err := udp.Listen(t.Context(), "udp", "127.0.0.1:0", nil)
			if err != nil {
				t.Fatal(err)
			}
			return pc
		},
		"udp":   func(t *testing.T) net.PacketConn { return listen(t) },
		"plain": func(t *testing.T) net.PacketConn { return plain{listen(t)} },
	} {
		t.Run(what, func(t *testing.T) {
			c, other := datagram.NewConn(wrap(t)), listen(t)
			deadline := time.Now().Add(10 * time.Second)
			_ = other.SetDeadline(deadline)
			_ = c.SetReadDeadline(deadline)
			if _, err := other.WriteTo([]byte("hello"), c.Local()); err != nil {
				t.Fatal(err)
			}
			ps := []udp.Packet{{Data: make([]byte, 100)}}
			n, from, err := c.Read(ps)
			if n != 1 || from != nil || err != nil || string(ps[0].Data) != "hello" || ps[0].Truncated {
				t.Fatalf("%d datagrams from %v, %q, %v", n, from, ps[0].Data, err)
			}
			if want := other.LocalAddr().(*net.UDPAddr).AddrPort(); ps[0].Addr != want {
				t.Errorf("from %v, want %v", ps[0].Addr, want)
			}
			if err := c.Send(&ps[0], nil); err != nil {
				t.Error(err)
			}
			sent := 1
			if c.SendsBatches() {
				for n := 0; n == 0 && err == nil; sent++ {
					n, err = c.Try(ps)
				}
			}
			buf := make([]byte, 100)
			for range sent {
				if n, _, err := other.ReadFrom(buf); err != nil || string(buf[:n]) != "hello" {
					t.Errorf("%q, %v", buf[:n], err)
				}
			}
			_ = c.SetReadDeadline(time.Unix(1, 0))
			if _, _, err := c.Read(ps); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			_ = c.SetReadDeadline(time.Time{})
			c.Close()
			if _, _, err := c.Read(ps); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// A datagram that fills its memory counts as truncated, because it may have been longer. Addresses that are not IP addresses are passed through
// unchanged.
func TestConnNames(t *testing.T) {
	c := datagram.NewConn(named{})
	ps := []udp.Packet{{Data: make([]byte, 11)}}
	n, from, err := c.Read(ps)
	if n != 1 || from != name("peer") || err != nil || ps[0].Addr.IsValid() || !ps[0].Truncated {
		t.Errorf("%d datagrams from %v and %v, truncated: %t, %v", n, from, ps[0].Addr, ps[0].Truncated, err)
	}
	if err := c.Send(&ps[0], from); err != nil {
		t.Error(err)
	}
	if c.Net() != nil || c.SendsBatches() {
		t.Error("it is a socket that sends batches")
	}
}

// Errors of the system are recognized through any wrapper.
func TestErrors(t *testing.T) {
	wrap := func(errno syscall.Errno) error {
		return &net.OpError{Op: "write", Err: os.NewSyscallError("sendto", errno)}
	}
	const wsaTooLarge, wsaReset = syscall.Errno(10040), syscall.Errno(10054)
	windows := runtime.GOOS == "windows"
	for _, tt := range []struct {
		err              error
		refused, tooLong bool
	}{
		{nil, false, false},
		{net.ErrClosed, false, false},
		{wrap(syscall.ECONNREFUSED), true, false},
		{wrap(syscall.EMSGSIZE), false, true},
		{wrap(wsaReset), windows, false},
		{wrap(wsaTooLarge), false, windows},
	} {
		if datagram.PortClosed(tt.err) != tt.refused || datagram.TooLarge(tt.err) != tt.tooLong {
			t.Errorf("%v: nobody listens %t, too large %t", tt.err, datagram.PortClosed(tt.err), datagram.TooLarge(tt.err))
		}
	}
}
