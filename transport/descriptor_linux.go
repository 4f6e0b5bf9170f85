package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
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

// accept makes the call and reports whether it has a result. Package syscall spends one small allocation on the address.
func (c *acceptCall) accept(fd uintptr) bool {
	for {
		c.fd, c.sa, c.err = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if !errors.Is(c.err, syscall.EINTR) {
			return !errors.Is(c.err, syscall.EAGAIN)
		}
	}
}

// acceptDescriptor waits for a connection.
func (l *Listener) acceptDescriptor() (Descriptor, error) {
	call := l.free.Swap(nil)
	if call == nil {
		call = newAcceptCall()
	}
	if err := l.rc.Read(call.try); err != nil {
		return Descriptor{}, err
	}
	fd, sa, err := call.fd, call.sa, os.NewSyscallError("accept4", call.err)
	call.sa = nil
	l.free.Store(call)
	if err != nil {
		return Descriptor{}, err
	}
	for _, opt := range l.each {
		_ = syscall.SetsockoptInt(fd, opt.level, opt.name, opt.value) // what is refused is not worth losing a client for
	}
	d := Descriptor{FD: fd, Unix: l.unix}
	if l.unix {
		return d, nil
	}
	d.Remote, d.Local = addrPort(sa), l.local
	if !d.Local.IsValid() {
		if sa, err := syscall.Getsockname(fd); err == nil {
			d.Local = addrPort(sa)
		}
	}
	return d, nil
}

// addrPort returns the canonical form of an address, zero if it is none of TCP's.
func addrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			addr = addr.WithZone(zone(sa.ZoneId))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// zone returns the name of an interface, as package net has it. Only link-local addresses have one.
func zone(id uint32) string {
	if i, err := net.InterfaceByIndex(int(id)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

func detach(conn net.Conn) (Descriptor, bool, error) {
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
	if d.FD, err = duplicate(rc); err != nil {
		return Descriptor{}, true, err
	}
	_ = conn.Close() // the socket lives on in the duplicate
	return d, true, nil
}

// addrPortOf returns the canonical form of a connection's address.
func addrPortOf(addr net.Addr) netip.AddrPort {
	if addr, ok := addr.(*net.TCPAddr); ok {
		return canonical(addr.AddrPort())
	}
	return netip.AddrPort{}
}

// duplicate returns another number for the socket under rc. Package net's sockets do not block, and a duplicate shares that.
func duplicate(rc syscall.RawConn) (fd int, err error) {
	var dup error
	if err := rc.Control(func(old uintptr) { fd, dup = duplicateFD(old) }); err != nil {
		return -1, err
	}
	return fd, dup
}

func duplicateFD(old uintptr) (int, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, old, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("fcntl", errno)
	}
	return int(fd), nil
}

func attach(d Descriptor) (net.Conn, error) {
	fd, err := duplicateFD(uintptr(d.FD))
	if err != nil {
		return nil, err
	}
	var kept [len(netDefaults)]int
	if !d.Unix {
		for i, o := range netDefaults {
			kept[i], _ = syscall.GetsockoptInt(fd, o.level, o.name)
		}
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() //nolint:errcheck // FileConn has made a duplicate of its own
	conn, err := net.FileConn(file)
	if err != nil || d.Unix {
		return conn, err
	}
	for i, o := range netDefaults {
		_ = syscall.SetsockoptInt(d.FD, o.level, o.name, kept[i])
	}
	return conn, nil
}

func closeDescriptor(fd int) error { return os.NewSyscallError("close", syscall.Close(fd)) }
