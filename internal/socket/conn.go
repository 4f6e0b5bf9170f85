package socket

import (
	"net"
	"syscall"
	"time"
)

// TCP is what is set on connections of package net. The zero value of a field leaves what is there.
type TCP struct {
	Delay     bool          // Nagle's algorithm is on
	KeepAlive time.Duration // the silence after which, and how often, TCP asks whether the peer is there; negative never asks
	Send      int           // the kernel's buffer in bytes
	NotSent   int           // see Options
}

// SetOn applies it to the TCP connection under conn, if there is one. What the system refuses is not worth losing a client for.
func (o TCP) SetOn(conn net.Conn) {
	tcp, ok := Under[adjustable](conn)
	if !ok {
		return
	}
	if o.Delay {
		_ = tcp.SetNoDelay(false)
	}
	if o.KeepAlive != 0 { // package net has set its own default
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: o.KeepAlive > 0, Idle: o.KeepAlive, Interval: o.KeepAlive})
	}
	if o.Send > 0 {
		_ = tcp.SetWriteBuffer(o.Send)
	}
	if o.NotSent > 0 {
		_ = Set(tcp, Options{NotSent: o.NotSent})
	}
}

// adjustable is a TCP connection: that of package net, or package late.
type adjustable interface {
	net.Conn
	syscall.Conn
	SetNoDelay(noDelay bool) error
	SetKeepAliveConfig(config net.KeepAliveConfig) error
	SetWriteBuffer(bytes int) error
}

// Preread is a connection of which some bytes were read already.
type Preread struct {
	net.Conn
	Unread []byte
}

// Read returns those first.
func (c *Preread) Read(p []byte) (int, error) {
	if len(c.Unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.Unread)
	c.Unread = c.Unread[n:]
	return n, nil
}

// NetConn returns the connection, as the method of tls.Conn does.
func (c *Preread) NetConn() net.Conn { return c.Conn }
