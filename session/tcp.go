package session

import (
	"net"

	"github.com/sluice-push/sluice/internal/socket"
)

// setTCP applies the options to the TCP connection under conn, if there is one. What the system refuses is not worth losing a
// client for.
func setTCP(conn net.Conn, o *Options) {
	tcp, ok := socket.Under[*net.TCPConn](conn)
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
