package session

import (
	"net"
	"os"
	"syscall"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall does not have.
const tcpNotSentLowat = 25

// setNotSentLowat bounds the bytes that the kernel takes before it could send them.
func setNotSentLowat(tcp *net.TCPConn, n int) error {
	rc, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := rc.Control(func(fd uintptr) {
		set = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, n))
	}); err != nil {
		return err
	}
	return set
}
