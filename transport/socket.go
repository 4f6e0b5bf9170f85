package transport

import (
	"net"

	sock "github.com/sluice-push/sluice/internal/socket"
)

// setUnbound prepares a socket that is going to listen.
func (o *Options) setUnbound(fd int, unix bool) error {
	if unix {
		if o.Mode != 0 {
			setMode(fd, uint32(o.Mode.Perm()))
		}
		return nil
	}
	if o.ReusePort {
		if err := setReusePort(fd); err != nil {
			return err
		}
	}
	return o.setInherited(fd)
}

// setListener applies the options to a socket that listens.
func (o *Options) setListener(fd int, unix bool) error {
	if o.Backlog > 0 {
		if err := setBacklog(fd, o.Backlog); err != nil {
			return err
		}
	}
	if unix {
		return nil
	}
	return o.setInherited(fd)
}

// setConn applies the options to a connection. With done its socket has them already, but for what package net changes in every
// socket that it makes a connection of. What the system refuses is not worth losing a client for.
func (o *Options) setConn(conn net.Conn, done bool) {
	tcp, isTCP := conn.(*net.TCPConn)
	if isTCP && o.Delay {
		_ = tcp.SetNoDelay(false)
	}
	if done {
		return
	}
	if isTCP {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: o.KeepAlive > 0, Idle: o.KeepAlive, Interval: o.KeepAlive, Count: o.KeepAliveCount,
		})
		if o.NotSentLowat > 0 {
			_ = sock.Set(tcp, sock.Options{NotSent: o.NotSentLowat})
		}
	}
	sized, ok := conn.(interface {
		SetReadBuffer(n int) error
		SetWriteBuffer(n int) error
	})
	if !ok {
		return
	}
	if o.ReadBuffer > 0 {
		_ = sized.SetReadBuffer(o.ReadBuffer)
	}
	if o.SendBuffer > 0 {
		_ = sized.SetWriteBuffer(o.SendBuffer)
	}
}
