package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// This file reads and writes batches in one system call: recvmmsg(2) and sendmmsg(2). For each datagram a call needs a header of the kernel, a
// vector of one element that points to the caller's bytes, and room for an address. A batch keeps this memory from one call to the next. There
// are as many batches as there were concurrent callers, up to a bound. The pointers in a batch have pointer types, so the garbage collector sees
// them. Pointers to the caller's bytes are cleared when the call returns.
//
// unsafe is here for the system calls only. The portable alternative is package net, one datagram at a time; the tests run both.

// maxBatch is the most datagrams in one sendmmsg (UIO_MAXIOV). recvmmsg is held to the same bound.
const maxBatch = 1024

// maxFree is the most unused batches that are kept, each of up to 128 KiB.
const maxFree = 8

// mmsgCalls are the numbers of system calls that package syscall does not have on every architecture.
type mmsgCalls struct{ recv, send, getsockopt uintptr }

// callNumbers returns the numbers of an architecture, from the kernel's arch/*/syscall*.tbl and asm-generic/unistd.h. They are zero if the
// architecture is not known here.
func callNumbers(arch string) mmsgCalls {
	switch arch {
	case "amd64":
		return mmsgCalls{recv: 299, send: 307, getsockopt: 55}
	case "386":
		return mmsgCalls{recv: 337, send: 345, getsockopt: 365}
	case "arm64", "loong64", "riscv64":
		return mmsgCalls{recv: 243, send: 269, getsockopt: 209}
	case "arm":
		return mmsgCalls{recv: 365, send: 374, getsockopt: 295}
	case "ppc64", "ppc64le":
		return mmsgCalls{recv: 343, send: 349, getsockopt: 340}
	case "s390x":
		return mmsgCalls{recv: 357, send: 358, getsockopt: 365}
	case "mips", "mipsle":
		return mmsgCalls{recv: 4335, send: 4343, getsockopt: 4173}
	case "mips64", "mips64le":
		return mmsgCalls{recv: 5294, send: 5302, getsockopt: 5054}
	}
	return mmsgCalls{}
}

// mmsghdr is struct mmsghdr of recvmmsg(2): 64 bytes with 64-bit pointers, 32 bytes with 32-bit ones.
type mmsghdr struct {
	hdr syscall.Msghdr
	n   uint32 // bytes read or written
}

// sockaddrLen is the size of struct sockaddr_in6, the larger of the two address types.
const sockaddrLen = syscall.SizeofSockaddrInet6

// sockaddr is a struct sockaddr_in or sockaddr_in6, as in ip(7) and ipv6(7): the family in native byte order, the port in network byte order,
// then the address. In IPv6 the flow information is before the address, and the interface index is after it, in native byte order.
type sockaddr [sockaddrLen]byte

// put4 writes an IPv4 address and returns its size.
func (s *sockaddr) put4(a netip.Addr, port uint16) uint32 {
	binary.NativeEndian.PutUint16(s[0:], syscall.AF_INET)
	binary.BigEndian.PutUint16(s[2:], port)
	ip := a.As4()
	copy(s[4:], ip[:])
	clear(s[8:16])
	return syscall.SizeofSockaddrInet4
}

// put6 writes an IPv6 address, or an IPv4 address mapped into IPv6, and returns its size.
func (s *sockaddr) put6(a netip.Addr, port uint16, scope uint32) uint32 {
	binary.NativeEndian.PutUint16(s[0:], syscall.AF_INET6)
	binary.BigEndian.PutUint16(s[2:], port)
	clear(s[4:8])
	ip := a.As16()
	copy(s[8:], ip[:])
	binary.NativeEndian.PutUint32(s[24:], scope)
	return syscall.SizeofSockaddrInet6
}

// get returns the address and, for IPv6, its scope. The address is invalid if the kernel wrote one of another family.
func (s *sockaddr) get(size uint32) (addr netip.AddrPort, scope uint32) {
	port := binary.BigEndian.Uint16(s[2:])
	switch family := binary.NativeEndian.Uint16(s[0:]); {
	case family == syscall.AF_INET && size >= syscall.SizeofSockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:8])), port), 0
	case family == syscall.AF_INET6 && size >= syscall.SizeofSockaddrInet6:
		ip := netip.AddrFrom16([16]byte(s[8:24])).Unmap()
		if ip.Is6() {
			scope = binary.NativeEndian.Uint32(s[24:])
		}
		return netip.AddrPortFrom(ip, port), scope
	}
	return netip.AddrPort{}, 0
}

// mmsg reads and writes batches. Its methods may be called by any goroutine.
type mmsg struct {
	// Set when made.
	connected, v6 bool
	recv, send    func(fd uintptr, h []mmsghdr) (int, syscall.Errno)

	zones sockopt.InterfaceTable

	mu   sync.Mutex
	free []*batch // unused batches
}

// newMMsg returns nil on an architecture whose call numbers are not known.
func newMMsg(connected, v6 bool) *mmsg {
	if callNumbers(runtime.GOARCH).recv == 0 {
		return nil
	}
	return &mmsg{connected: connected, v6: v6, recv: recvmmsg, send: sendmmsg}
}

// The socket is non-blocking. MSG_DONTWAIT keeps the calls from blocking even if other code has made the socket blocking.

func recvmmsg(fd uintptr, h []mmsghdr) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(callNumbers(runtime.GOARCH).recv, fd, uintptr(unsafe.Pointer(unsafe.SliceData(h))), uintptr(len(h)),
		syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func sendmmsg(fd uintptr, h []mmsghdr) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(callNumbers(runtime.GOARCH).send, fd, uintptr(unsafe.Pointer(unsafe.SliceData(h))), uintptr(len(h)),
		syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// batch is the memory of one call, and the call's result, for one goroutine at a time.
type batch struct {
	hdrs  []mmsghdr
	iovs  []syscall.Iovec
	names []sockaddr

	// The call in progress: its number of packets, its system call, and its result.
	want  int
	call  func(fd uintptr, h []mmsghdr) (int, syscall.Errno)
	got   int
	errno syscall.Errno

	// The methods below as values, made once, because package syscall takes functions.
	polled func(fd uintptr) bool
	once   func(fd uintptr)
}

// try makes the call, and reports whether it has a result. If it has none, the caller waits for the socket.
func (b *batch) try(fd uintptr) bool {
	for {
		b.got, b.errno = b.call(fd, b.hdrs[:b.want])
		if b.errno != syscall.EINTR {
			break
		}
	}
	if b.errno != 0 {
		b.got = 0
	}
	return b.errno != syscall.EAGAIN
}

// err returns the error of the system call.
func (b *batch) err(call string) error {
	if b.errno == 0 || b.errno == syscall.EAGAIN {
		return nil
	}
	return os.NewSyscallError(call, b.errno)
}

// set prepares one packet of a call.
func (b *batch) set(i int, data []byte, nameLen uint32) {
	iov, hdr := &b.iovs[i], &b.hdrs[i].hdr
	iov.Base = unsafe.SliceData(data)
	iov.SetLen(len(data))
	*hdr = syscall.Msghdr{Iov: iov, Iovlen: 1}
	if nameLen > 0 {
		hdr.Name, hdr.Namelen = &b.names[i][0], nameLen
	}
}

// take returns a batch with room for n packets, at most maxBatch.
func (m *mmsg) take(n int) *batch {
	b := m.pop()
	if b == nil {
		b = new(batch)
		b.polled = b.try
		b.once = func(fd uintptr) { b.try(fd) }
	}
	b.want = min(n, maxBatch)
	b.got, b.errno = 0, 0
	if len(b.hdrs) < b.want {
		b.hdrs, b.iovs, b.names = make([]mmsghdr, b.want), make([]syscall.Iovec, b.want), make([]sockaddr, b.want)
	}
	return b
}

func (m *mmsg) pop() *batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.free) - 1
	if last < 0 {
		return nil
	}
	b := m.free[last]
	m.free[last] = nil
	m.free = m.free[:last]
	return b
}

// give keeps a batch for reuse.
func (m *mmsg) give(b *batch) {
	clear(b.iovs[:b.want])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free) < maxFree {
		m.free = append(m.free, b)
	}
}

// read waits for datagrams, and reads all that have arrived, up to len(ps).
func (m *mmsg) read(rc syscall.RawConn, ps []Packet) (int, error) {
	b := m.take(len(ps))
	defer m.give(b)
	for i := range b.want {
		b.set(i, ps[i].Data[:cap(ps[i].Data)], sockaddrLen)
	}
	b.call = m.recv
	if err := rc.Read(b.polled); err != nil {
		return 0, err
	}
	if err := b.err("recvmmsg"); err != nil {
		return 0, err
	}
	for i := range b.got {
		p, h := &ps[i], &b.hdrs[i]
		p.Data = p.Data[:h.n]
		p.Truncated = h.hdr.Flags&syscall.MSG_TRUNC != 0
		addr, scope := b.names[i].get(h.hdr.Namelen)
		if scope != 0 {
			addr = m.zones.With(addr, scope, time.Now())
		}
		p.Addr = addr
	}
	return b.got, nil
}

// write sends a batch, or the datagrams that there is room for. If wait is set, it waits until there is room for one.
func (m *mmsg) write(rc syscall.RawConn, ps []Packet, wait bool) (int, error) {
	b := m.take(len(ps))
	defer m.give(b)
	for i := range b.want {
		b.set(i, ps[i].Data, m.name(&b.names[i], ps[i].Addr))
	}
	b.call = m.send
	var err error
	if wait {
		err = rc.Write(b.polled)
	} else {
		err = rc.Control(b.once) // unlike Write, Control waits for no other writer
	}
	if err != nil {
		return 0, err
	}
	return b.got, b.err("sendmmsg")
}

// name writes the destination of a datagram, and returns its size. Zero means no destination, which the kernel refuses unless the socket is
// connected. The kernel also refuses a family that the socket does not have.
func (m *mmsg) name(s *sockaddr, to netip.AddrPort) uint32 {
	addr := to.Addr()
	switch {
	case m.connected || !addr.IsValid():
		return 0
	case !m.v6 && (addr.Is4() || addr.Is4In6()):
		return s.put4(addr, to.Port())
	}
	var scope uint32
	if zone := addr.Zone(); zone != "" {
		scope = m.zones.Index(zone, time.Now())
	}
	return s.put6(addr, to.Port(), scope)
}
