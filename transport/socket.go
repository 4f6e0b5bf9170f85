package transport

import (
	"net"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// setUnbound sets the options of a socket before it is bound and listens.
func (o *Options) setUnbound(fd int, unix bool) error {
	if unix {
		if o.Mode != 0 {
			setMode(fd, uint32(o.Mode.Perm()))
		}
		return nil
	}
	if o.ReusePort {
		if err := sockopt.SetReusePort(fd); err != nil {
			return err
		}
	}
	return o.setInherited(fd)
}

// setListener sets the options of a listening socket.
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

// setConn sets the options of a connection. If done is set, the socket has them already, except Delay, because package net changes TCP_NODELAY
// of every socket that it makes a connection of. Errors are ignored: they are not worth losing a client for.
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
			_ = sockopt.Set(tcp, sockopt.Options{NotSent: o.NotSentLowat})
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
