package udp

import (
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Fill makes sends of c fail for lack of room, until the returned function is called.
func Fill(c *Conn) (empty func()) {
	var free atomic.Bool
	c.fast.send = func(fd uintptr, h []mmsghdr) (int, syscall.Errno) {
		if !free.Load() {
			return 0, syscall.EAGAIN
		}
		return sendmmsg(fd, h)
	}
	return func() { free.Store(true) }
}

// Interrupt makes every other call fail with an error, beginning with the first.
func Interrupt(c *Conn, errno syscall.Errno) {
	var recvs, sends atomic.Uint64
	c.fast.recv = func(fd uintptr, h []mmsghdr) (int, syscall.Errno) {
		if recvs.Add(1)%2 == 1 {
			return -1, errno
		}
		return recvmmsg(fd, h)
	}
	c.fast.send = func(fd uintptr, h []mmsghdr) (int, syscall.Errno) {
		if sends.Add(1)%2 == 1 {
			return -1, errno
		}
		return sendmmsg(fd, h)
	}
}

// IsSlow reports whether c no longer uses batches.
func IsSlow(c *Conn) bool { return c.slow.Load() }

// AddrRoundTrip writes an address in the kernel's form, and reads it again.
func AddrRoundTrip(a netip.AddrPort, v6 bool, scope uint32) (netip.AddrPort, uint32) {
	var s sockaddr
	for i := range s {
		s[i] = 0xaa
	}
	if v6 {
		return s.get(s.put6(a.Addr(), a.Port(), scope))
	}
	return s.get(s.put4(a.Addr(), a.Port()))
}

// HeaderSize is the size of struct mmsghdr.
const HeaderSize = unsafe.Sizeof(mmsghdr{})

// CallNumbers returns the numbers of the system calls on this architecture.
func CallNumbers() (recv, send, getsockopt uintptr) {
	n := callNumbers(runtime.GOARCH)
	return n.recv, n.send, n.getsockopt
}

// GroupRequest returns the request that JoinGroup passes to the kernel.
func GroupRequest(group, source netip.Addr) []byte {
	return membership{group: group, source: source}.request()
}

// Drops returns the total after the kernel has returned the given counts one after the other.
func Drops(said ...uint32) uint64 {
	var d dropCount
	for _, n := range said {
		d.add(n)
	}
	return d.count()
}
