package sockopt

import (
	"net"
	"sync/atomic"
	"syscall"
)

// InheritedOptions finds out which options accepted sockets lack, and sets these. An accepted socket has most options already: it inherits them
// from the listening socket, or package net sets them. Which options these are depends on the kernel. It also depends on the connection, because a
// listener of package net may accept Multipath TCP as well. So the first socket of each kind is asked for all options, and later sockets get the
// options that it lacked. InheritedOptions may be used concurrently.
type InheritedOptions struct {
	kinds [2]socketKind // plain TCP, and others
}

// socketKind records the options that sockets of one kind lack.
type socketKind struct {
	lacks atomic.Pointer[[]Option] // nil if no socket has been asked yet
	since atomic.Uint64            // how many sockets have been accepted since the first that lacked an option
}

// Apply sets the options that fd lacks. The socket was accepted by a listener; wanted is the same in every call. If mixed is set, the listener
// speaks Multipath TCP.
func (h *InheritedOptions) Apply(fd int, wanted []Option, mixed bool) {
	if len(wanted) == 0 {
		return
	}
	kind := &h.kinds[0]
	if mixed && !IsPlainTCP(fd) {
		kind = &h.kinds[1]
	}
	for _, o := range kind.lacking(fd, wanted) {
		_ = syscall.SetsockoptInt(fd, o.Level, o.Name, o.Value) // a refused option is no reason to lose a client
	}
}

// lacking returns the options that fd lacks, usually without asking the kernel. Connections that came before the listener had its options are
// accepted first, and lack more. So while options are lacking, further sockets are asked: after the first one the next, and then ever fewer.
func (k *socketKind) lacking(fd int, wanted []Option) []Option {
	if lacks := k.lacks.Load(); lacks != nil {
		if len(*lacks) == 0 {
			return nil
		}
		if n := k.since.Add(1); n&(n-1) != 0 {
			return *lacks
		}
	}
	list := []Option{}
	for _, o := range wanted {
		if has, err := syscall.GetsockoptInt(fd, o.Level, o.Name); err != nil || has != o.Value {
			list = append(list, o)
		}
	}
	k.lacks.Store(&list)
	return list
}

// Missing returns the number of options that Apply sets on each connection of plain TCP, or −1 if no connection has been asked yet.
func (h *InheritedOptions) Missing() int {
	if list := h.kinds[0].lacks.Load(); list != nil {
		return len(*list)
	}
	return -1
}

// ApplyConn is Apply for a connection. It reports whether the connection has a descriptor.
func (h *InheritedOptions) ApplyConn(conn net.Conn, wanted []Option, mixed bool) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := sc.SyscallConn()
	return err == nil && rc.Control(func(fd uintptr) { h.Apply(int(fd), wanted, mixed) }) == nil
}

// IsPlainTCP reports whether a TCP socket is not one of Multipath TCP.
func IsPlainTCP(fd int) bool {
	protocol, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PROTOCOL)
	return err == nil && protocol == syscall.IPPROTO_TCP
}
