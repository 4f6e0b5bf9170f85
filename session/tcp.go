package session

import "net"

// setTCP applies the options to the TCP connection under conn, if there is one. What the system refuses is not worth losing a
// client for.
func setTCP(conn net.Conn, o *Options) {
	for range 4 { // a TLS connection, or another wrapper, says what is under it
		under, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = under.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
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
		_ = setNotSentLowat(tcp, o.NotSentLowat)
	}
}
