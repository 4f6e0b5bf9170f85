package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	conns "github.com/sluice-push/sluice/internal/late"
	sock "github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/internal/zones"
)

// haveDescriptors says that connections can be had without a net.Conn.
const haveDescriptors = true

// acceptCall is one call of accept4: the callback for the poller, made once, and its result. syscall.RawConn lets in one caller at a
// time, but the result is read when the next may be in already, so each caller has its own.
type acceptCall struct {
	try func(fd uintptr) bool
	fd  int
	sa  syscall.Sockaddr
	err error
}

func newAcceptCall() *acceptCall {
	c := new(acceptCall)
	c.try = c.accept
	return c
}

// accept makes the call and reports whether it has a result.
func (c *acceptCall) accept(fd uintptr) bool {
	c.fd, c.sa, c.err = accept4(int(fd))
	return !errors.Is(c.err, syscall.EAGAIN)
}

// accept4 accepts a connection. Package syscall spends one small allocation on the address.
func accept4(fd int) (int, syscall.Sockaddr, error) {
	for {
		nfd, sa, err := syscall.Accept4(fd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if !errors.Is(err, syscall.EINTR) {
			return nfd, sa, err
		}
	}
}

// acceptDescriptor waits for a connection.
func (l *Listener) acceptDescriptor() (Descriptor, error) {
	call := l.free.Swap(nil)
	if call == nil {
		call = newAcceptCall()
	}
	if err := l.wait(call.try); err != nil {
		return Descriptor{}, err
	}
	fd, sa, err := call.fd, call.sa, os.NewSyscallError("accept4", call.err)
	call.sa = nil
	l.free.Store(call)
	if err != nil {
		return Descriptor{}, err
	}
	return l.descriptor(fd, sa), nil
}

// acceptNow returns a connection if there is one.
func (l *Listener) acceptNow(listening int) (d Descriptor, ok bool, err error) {
	fd, sa, err := accept4(listening)
	switch {
	case err == nil:
		return l.descriptor(fd, sa), true, nil
	case errors.Is(err, syscall.EAGAIN):
		return d, false, nil
	default:
		return d, false, os.NewSyscallError("accept4", err)
	}
}

// descriptor is what is known of an accepted socket, which gets its options.
func (l *Listener) descriptor(fd int, sa syscall.Sockaddr) Descriptor {
	l.bare.Equip(fd, l.each, l.mixed)
	d := Descriptor{FD: fd, Unix: l.unix}
	if l.unix {
		return d
	}
	d.Remote, d.Local = addrPort(sa), l.local
	if !d.Local.IsValid() {
		if sa, err := syscall.Getsockname(fd); err == nil {
			d.Local = addrPort(sa)
		}
	}
	return d
}

// addrPort returns the canonical form of an address, zero if it is none of TCP's.
func addrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			addr = addr.WithZone(zones.Name(sa.ZoneId))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// late is a listener whose connections are late.
type late struct{ *Listener }

// Accept returns a *conns.Conn.
func (l late) Accept() (net.Conn, error) {
	d, err := l.AcceptDescriptor()
	if err != nil {
		return nil, err
	}
	return conns.New(d.FD, net.TCPAddrFromAddrPort(d.Remote), l.here.TCP(d.Local).Local), nil
}

func detach(conn net.Conn) (d Descriptor, ok bool, err error) {
	if conn, ok := conn.(*conns.Conn); ok {
		d.Remote, d.Local = addrPortOf(conn.RemoteAddr()), addrPortOf(conn.LocalAddr())
		d.FD, err = conn.Take()
		return d, true, err
	}
	if d, ok, err = duplicate(conn); ok && err == nil {
		_ = conn.Close() // the socket lives on in the duplicate
	}
	return d, ok, err
}

func duplicate(conn net.Conn) (Descriptor, bool, error) {
	var d Descriptor
	var sc syscall.Conn
	switch conn := conn.(type) {
	case *net.TCPConn:
		sc = conn
		d.Remote, d.Local = addrPortOf(conn.RemoteAddr()), addrPortOf(conn.LocalAddr())
	case *net.UnixConn:
		if conn.LocalAddr().Network() != "unix" {
			return d, false, nil
		}
		sc, d.Unix = conn, true
	default:
		return d, false, nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return Descriptor{}, true, err
	}
	if d.FD, err = sock.DuplicateUnder(rc); err != nil {
		return Descriptor{}, true, err
	}
	return d, true, nil
}

// addrPortOf returns the canonical form of a connection's address.
func addrPortOf(addr net.Addr) netip.AddrPort {
	if addr, ok := addr.(*net.TCPAddr); ok {
		return canonical(addr.AddrPort())
	}
	return netip.AddrPort{}
}

func attach(d Descriptor) (net.Conn, error) {
	fd, err := sock.Duplicate(uintptr(d.FD), 0)
	if err != nil {
		return nil, err
	}
	var kept [len(netDefaults)]int
	if !d.Unix {
		for i, o := range netDefaults {
			kept[i], _ = syscall.GetsockoptInt(fd, o.Level, o.Name)
		}
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() //nolint:errcheck // FileConn has made a duplicate of its own
	conn, err := net.FileConn(file)
	if err != nil || d.Unix {
		return conn, err
	}
	for i, o := range netDefaults {
		_ = syscall.SetsockoptInt(d.FD, o.Level, o.Name, kept[i])
	}
	return conn, nil
}

func closeDescriptor(fd int) error { return os.NewSyscallError("close", syscall.Close(fd)) }
