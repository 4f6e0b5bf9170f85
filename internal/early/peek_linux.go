package early

import (
	"net"
	"syscall"
)

// untilData is how long, in seconds, the kernel waits for something to be received before a connection can be accepted.
const untilData = 1

// await has the kernel hand out connections whose first bytes are here (TCP_DEFER_ACCEPT of tcp(7)).
func await(ln *net.TCPListener) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // without it more connections are handed on
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, untilData)
	})
}

// peek copies what has been received to p and leaves it there.
func peek(conn *net.TCPConn, p []byte) (n int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool { // an error is that of the next who reads
		n, _, _ = syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return max(n, 0)
}
