package transport

import (
	"net"
	"os"
	"syscall"
	"time"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall does not have.
const tcpNotSentLowat = 25

// option is one integer option of a socket.
type option struct{ level, name, value int }

// netDefaults are the options that package net sets on every TCP socket it makes a connection of.
var netDefaults = [...]option{
	{level: syscall.IPPROTO_TCP, name: syscall.TCP_NODELAY},
	{level: syscall.SOL_SOCKET, name: syscall.SO_KEEPALIVE},
	{level: syscall.IPPROTO_TCP, name: syscall.TCP_KEEPIDLE},
	{level: syscall.IPPROTO_TCP, name: syscall.TCP_KEEPINTVL},
	{level: syscall.IPPROTO_TCP, name: syscall.TCP_KEEPCNT},
}

// inherited returns the options that accepted TCP connections have from the listener on Linux, and dialed ones from nobody.
func (o *Options) inherited() []option {
	list := o.buffers()
	add := func(level, name, value int) { list = append(list, option{level, name, value}) }
	if o.Delay {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0)
	} else {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if o.KeepAlive < 0 {
		add(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 0)
		return list
	}
	seconds := int((o.KeepAlive + time.Second - 1) / time.Second)
	add(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
	add(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, seconds)
	add(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, seconds)
	if o.KeepAliveCount > 0 {
		add(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, o.KeepAliveCount)
	}
	return list
}

// each returns the options that every accepted descriptor has to be given: Unix sockets inherit nothing.
func (o *Options) each(unix bool) []option {
	if unix {
		return o.buffers()
	}
	if o.NotSentLowat > 0 {
		return []option{{syscall.IPPROTO_TCP, tcpNotSentLowat, o.NotSentLowat}}
	}
	return nil
}

// buffers returns the sizes of the kernel's buffers.
func (o *Options) buffers() (list []option) {
	if o.ReadBuffer > 0 {
		list = append(list, option{syscall.SOL_SOCKET, syscall.SO_RCVBUF, o.ReadBuffer})
	}
	if o.SendBuffer > 0 {
		list = append(list, option{syscall.SOL_SOCKET, syscall.SO_SNDBUF, o.SendBuffer})
	}
	return list
}

// setListener sets on a listening TCP socket what connections inherit, so that they cost no system calls.
func (o *Options) setListener(ln syscall.Conn) error {
	rc, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	return control(rc, func(fd int) error {
		for _, opt := range o.inherited() {
			if err := syscall.SetsockoptInt(fd, opt.level, opt.name, opt.value); err != nil {
				return os.NewSyscallError("setsockopt", err)
			}
		}
		return nil
	})
}

// control runs f with the descriptor.
func control(rc syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// setNotSentLowat bounds the bytes that the kernel takes before it could send them.
func setNotSentLowat(tcp *net.TCPConn, n int) error {
	rc, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	return control(rc, func(fd int) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpNotSentLowat, n))
	})
}
