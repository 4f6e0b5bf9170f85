package portsplit

import (
	"errors"
	"net"
	"syscall"
)

// peek copies the bytes that have arrived to p without consuming them, and returns how many those are.
func peek(conn net.Conn, p []byte) (n int) {
	peekWhile(conn, p, func(got int, _ bool) bool {
		n = got
		return false
	})
	return n
}

// await waits until the first bytes of a connection are enough, and returns them and the connection; nil after an error or at the end. The bytes are
// not consumed.
func await(conn net.Conn, enough func(first []byte) bool) ([]byte, net.Conn) {
	if _, ok := conn.(*net.TCPConn); !ok {
		return readUntil(conn, enough)
	}
	var p [len(preface)]byte
	var first []byte
	peekWhile(conn, p[:], func(n int, more bool) bool {
		if enough(p[:n]) {
			first = p[:n]
		}
		return more && first == nil
	})
	return first, conn
}

// peekWhile peeks each time that something has arrived, as long as again returns true. more is false at the end of the stream and after an error.
func peekWhile(conn net.Conn, p []byte, again func(n int, more bool) bool) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // an error is that of the deadline, or of a connection that is closed
		n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		more := n > 0 || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		return !again(max(n, 0), more)
	})
}
