package transport

import "net"

// setAccepted applies the options to an accepted or dialed connection. What the system refuses is not worth losing a client for.
func (o *Options) setAccepted(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		o.setBuffers(conn)
		return
	}
	if o.Delay { // package net has switched it off
		_ = tcp.SetNoDelay(false)
	}
	_ = tcp.SetKeepAliveConfig(o.keepAlive())
	o.setBuffers(conn)
	if o.NotSentLowat > 0 {
		_ = setNotSentLowat(tcp, o.NotSentLowat)
	}
}

// keepAlive returns the options as package net has them.
func (o *Options) keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: o.KeepAlive > 0, Idle: o.KeepAlive, Interval: o.KeepAlive, Count: o.KeepAliveCount}
}

// setBuffers bounds what the kernel holds.
func (o *Options) setBuffers(conn net.Conn) {
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
