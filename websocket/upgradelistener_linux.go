package websocket

import (
	"net"
	"syscall"
)

// deferAcceptFor is how long, in seconds, the kernel holds back a connection on which nothing has arrived.
const deferAcceptFor = 1

// deferAccept sets TCP_DEFER_ACCEPT (tcp(7)): Accept then returns connections whose first bytes have arrived. If the option cannot be set,
// more connections go to net/http, so the error is ignored.
func deferAccept(ln syscall.Conn) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, deferAcceptFor)
	})
}

// peek copies the received bytes to p without consuming them and returns their number, 0 after an error. The next read gets the error.
func peek(conn *net.TCPConn, p []byte) (n int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, _, _ = syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return max(n, 0)
}
