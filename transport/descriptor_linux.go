package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// haveDescriptors says that the system can accept connections without a net.Conn.
const haveDescriptors = true

// acceptCall is one call of accept4: the callback for the poller, made once, and its result. syscall.RawConn admits one caller at a time. But
// the next caller may be running when the result is read, so each caller has an acceptCall of its own.
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

// accept calls accept4, and reports whether that has a result.
func (c *acceptCall) accept(fd uintptr) bool {
	c.fd, c.sa, c.err = accept4(int(fd))
	return !errors.Is(c.err, syscall.EAGAIN)
}

// accept4 accepts a connection. Package syscall makes one small allocation for the address.
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

// acceptNow returns a connection if a client has connected.
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

// descriptor returns the Descriptor of an accepted socket, and sets the socket's options.
func (l *Listener) descriptor(fd int, sa syscall.Sockaddr) Descriptor {
	l.bare.Apply(fd, l.each, l.mixed)
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

// addrPort returns the canonical form of an address, or the zero value if it is no TCP address.
func addrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			addr = addr.WithZone(sockopt.InterfaceName(sa.ZoneId))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func detach(conn net.Conn) (d Descriptor, ok bool, err error) {
	if d, ok, err = duplicate(conn); ok && err == nil {
		_ = conn.Close() // the duplicate keeps the socket open
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
	if d.FD, err = sockopt.DuplicateConn(rc); err != nil {
		return Descriptor{}, true, err
	}
	return d, true, nil
}

// addrPortOf returns the canonical form of a connection's address.
func addrPortOf(addr net.Addr) netip.AddrPort {
	if addr, ok := addr.(*net.TCPAddr); ok {
		return clientaddr.Canonical(addr.AddrPort())
	}
	return netip.AddrPort{}
}

func attach(d Descriptor) (net.Conn, error) {
	fd, err := sockopt.Duplicate(uintptr(d.FD), 0)
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
