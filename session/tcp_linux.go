package session

import (
	"net"
	"os"
	"syscall"
	"time"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall does not have.
const tcpNotSentLowat = 25

// setBare applies the options to a TCP descriptor as setTCP does to a connection of package net. It would have them from its listener,
// but not when it was waiting before the listener got them.
func setBare(fd int, o *Options) {
	set := func(level, name, value int) { _ = syscall.SetsockoptInt(fd, level, name, value) }
	if !o.Delay {
		set(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if o.KeepAlive >= 0 {
		interval := 15
		if o.KeepAlive > 0 {
			interval = int((o.KeepAlive + time.Second - 1) / time.Second)
		}
		set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, interval)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, interval)
	}
	if o.SendBuffer > 0 {
		set(syscall.SOL_SOCKET, syscall.SO_SNDBUF, o.SendBuffer)
	}
	if o.NotSentLowat > 0 {
		set(syscall.IPPROTO_TCP, tcpNotSentLowat, o.NotSentLowat)
	}
}

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
