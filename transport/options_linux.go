package transport

import (
	"os"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// socketOptions says that the options are set on sockets, before these are connected.
const socketOptions = true

// netDefaults are the options that package net sets on every TCP socket that it makes a connection of.
var netDefaults = [...]sockopt.Option{
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_NODELAY},
	{Level: syscall.SOL_SOCKET, Name: syscall.SO_KEEPALIVE},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPIDLE},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPINTVL},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPCNT},
}

// inherited returns the options that accepted TCP connections inherit from the listener.
func (o *Options) inherited() []sockopt.Option {
	list := o.buffers()
	add := func(level, name, value int) {
		list = append(list, sockopt.Option{Level: level, Name: name, Value: value})
	}
	if o.Delay {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0)
	} else {
		add(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if o.NotSentLowat > 0 {
		add(syscall.IPPROTO_TCP, sockopt.NotSentLowat, o.NotSentLowat)
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

// each returns the options to set on every accepted descriptor that lacks them. Unix sockets inherit no options, and sockets of Multipath TCP
// not all. A listener that was made elsewhere may have connections from before it had the options.
func (o *Options) each(unix bool) []sockopt.Option {
	if unix {
		return o.buffers()
	}
	return o.inherited()
}

// buffers returns the options for the sizes of the kernel's buffers.
func (o *Options) buffers() (list []sockopt.Option) {
	if o.ReadBuffer > 0 {
		list = append(list, sockopt.Option{Level: syscall.SOL_SOCKET, Name: syscall.SO_RCVBUF, Value: o.ReadBuffer})
	}
	if o.SendBuffer > 0 {
		list = append(list, sockopt.Option{Level: syscall.SOL_SOCKET, Name: syscall.SO_SNDBUF, Value: o.SendBuffer})
	}
	return list
}

// setInherited sets on a TCP socket the options that connections inherit, so that each connection costs no system calls.
func (o *Options) setInherited(fd int) error { return setOptions(fd, o.inherited()) }

// setDialing sets all options on a socket before it connects.
func (o *Options) setDialing(fd int, unix bool) error {
	if unix {
		return setOptions(fd, o.buffers())
	}
	return setOptions(fd, o.inherited())
}

func setOptions(fd int, list []sockopt.Option) error {
	for _, opt := range list {
		if err := syscall.SetsockoptInt(fd, opt.Level, opt.Name, opt.Value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}
