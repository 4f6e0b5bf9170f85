package session

import (
	"net"

	"github.com/sluice-push/sluice/internal/socket"
)

// setTCP applies the options to the TCP connection under conn, if there is one. What the system refuses is not worth losing a
// client for.
func setTCP(conn net.Conn, o *Options) {
	tcp, ok := under[*net.TCPConn](conn)
	if !ok {
		return
	}
	if o.Delay {
		_ = tcp.SetNoDelay(false)
	}
	if o.KeepAlive != 0 { // package net has set its own default
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: o.KeepAlive > 0, Idle: o.KeepAlive, Interval: o.KeepAlive})
	}
	if o.SendBuffer > 0 {
		_ = tcp.SetWriteBuffer(o.SendBuffer)
	}
	if o.NotSentLowat > 0 {
		_ = socket.Set(tcp, socket.Options{NotSent: o.NotSentLowat})
	}
}

// under returns conn, or what is under it, as a T: a TLS connection, or another wrapper, says what that is.
func under[T any](conn net.Conn) (t T, ok bool) {
	for range 5 {
		if t, ok = conn.(T); ok {
			break
		}
		wrapper, wraps := conn.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		conn = wrapper.NetConn()
	}
	return t, ok
}
