package transport

import (
	"os"
	"syscall"
	"time"

	sock "github.com/sluice-push/sluice/internal/socket"
)

// socketOptions says that the options are set on sockets, before they are connected.
const socketOptions = true

// netDefaults are the options that package net sets on every TCP socket it makes a connection of.
var netDefaults = [...]sock.Option{
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_NODELAY},
	{Level: syscall.SOL_SOCKET, Name: syscall.SO_KEEPALIVE},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPIDLE},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPINTVL},
	{Level: syscall.IPPROTO_TCP, Name: syscall.TCP_KEEPCNT},
}

// inherited returns the options that accepted TCP connections have from the listener.
func (o *Options) inherited() []sock.Option {
	list := o.buffers()
	add := func(level, name, value int) { list = append(list, sock.Option{Level: level, Name: name, Value: value}) }
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

// each returns the options that every accepted descriptor has to be given, if it lacks them: Unix sockets inherit nothing, those of
// Multipath TCP not all, and connections may have come before a listener that was there already had the options.
func (o *Options) each(unix bool) []sock.Option {
	if unix {
		return o.buffers()
	}
	return o.inherited()
}

// buffers returns the sizes of the kernel's buffers.
func (o *Options) buffers() (list []sock.Option) {
	if o.ReadBuffer > 0 {
		list = append(list, sock.Option{Level: syscall.SOL_SOCKET, Name: syscall.SO_RCVBUF, Value: o.ReadBuffer})
	}
	if o.SendBuffer > 0 {
		list = append(list, sock.Option{Level: syscall.SOL_SOCKET, Name: syscall.SO_SNDBUF, Value: o.SendBuffer})
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

func setOptions(fd int, list []sock.Option) error {
	for _, opt := range list {
		if err := syscall.SetsockoptInt(fd, opt.Level, opt.Name, opt.Value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}
