package socket

import (
	"net"
	"sync/atomic"
	"syscall"
)

// Heirs knows which options accepted sockets lack. Most they have already, of the socket that listened or from package net. Which those are
// depends on the kernel and, since a listener of package net takes Multipath TCP as well, on the connection. So the first one of each
// kind is asked for all, and those that come after it get what it lacked. It may be used concurrently.
type Heirs struct {
	kinds [2]heir // plain, and others
}

// heir is what sockets of one kind lack.
type heir struct {
	lacks atomic.Pointer[[]Option] // nil when none was asked yet
	since atomic.Uint64            // how many have lacked something
}

// Equip sets what fd lacks of the options wanted, always the same, on a socket that a listener accepted. With mixed the listener
// speaks Multipath TCP.
func (h *Heirs) Equip(fd int, wanted []Option, mixed bool) {
	if len(wanted) == 0 {
		return
	}
	kind := &h.kinds[0]
	if mixed && !IsPlainTCP(fd) {
		kind = &h.kinds[1]
	}
	for _, o := range kind.lacking(fd, wanted) {
		_ = syscall.SetsockoptInt(fd, o.Level, o.Name, o.Value) // what is refused is not worth losing a client for
	}
}

// lacking returns what fd lacks, which is perhaps asked for. Connections that came before the listener had the options are accepted first,
// and lack more; so as long as something is lacking others are asked too: the next, the one
// after that, then ever fewer.
func (h *heir) lacking(fd int, wanted []Option) []Option {
	if lacks := h.lacks.Load(); lacks != nil {
		if len(*lacks) == 0 {
			return nil
		}
		if n := h.since.Add(1); n&(n-1) != 0 {
			return *lacks
		}
	}
	list := []Option{}
	for _, o := range wanted {
		if has, err := syscall.GetsockoptInt(fd, o.Level, o.Name); err != nil || has != o.Value {
			list = append(list, o)
		}
	}
	h.lacks.Store(&list)
	return list
}

// Lacking returns how many options each connection of plain TCP is given, −1 when none was asked yet.
func (h *Heirs) Lacking() int {
	if list := h.kinds[0].lacks.Load(); list != nil {
		return len(*list)
	}
	return -1
}

// EquipConn is Equip for a connection. It reports whether there was a descriptor to do that with.
func (h *Heirs) EquipConn(conn net.Conn, wanted []Option, mixed bool) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := sc.SyscallConn()
	return err == nil && rc.Control(func(fd uintptr) { h.Equip(int(fd), wanted, mixed) }) == nil
}

// IsPlainTCP reports whether a TCP socket is not one of Multipath TCP.
func IsPlainTCP(fd int) bool {
	protocol, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PROTOCOL)
	return err == nil && protocol == syscall.IPPROTO_TCP
}
