package transport

import (
	"os"
	"syscall"
	"time"

	sock "github.com/sluice-push/sluice/internal/socket"
)

// socketOptions says that the options are set on sockets, before they are connected.
const socketOptions = true

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

// inherited returns the options that accepted TCP connections have from the listener.
func (o *Options) inherited() []option {
	list := o.buffers()
	add := func(level, name, value int) { list = append(list, option{level, name, value}) }
	if o.Delay {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0)
	} else {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if o.NotSentLowat > 0 {
		add(syscall.IPPROTO_TCP, sock.NotSentLowat, o.NotSentLowat)
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

// each returns the options that every accepted descriptor has to be given: Unix sockets inherit nothing, and of a listener that was
// there before, connections may have come before it had the options.
func (o *Options) each(unix bool) []option {
	if unix {
		return o.buffers()
	}
	return o.inherited()
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

// setInherited sets on a TCP socket what connections inherit, so that each of them costs no system calls.
func (o *Options) setInherited(fd int) error { return setOptions(fd, o.inherited()) }

// setDialing sets all options before connecting.
func (o *Options) setDialing(fd int, unix bool) error {
	if unix {
		return setOptions(fd, o.buffers())
	}
	return setOptions(fd, o.inherited())
}

func setOptions(fd int, list []option) error {
	for _, opt := range list {
		if err := syscall.SetsockoptInt(fd, opt.level, opt.name, opt.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}
