package sockopt

import (
	"net"
	"syscall"
	"time"
)

// TCP are the socket options for connections of package net. The zero value of a field leaves the option as it is.
type TCP struct {
	Delay     bool          // Nagle's algorithm is on
	KeepAlive time.Duration // the silence after which, and how often, TCP asks whether the peer is there; negative never asks
	Send      int           // the kernel's buffer in bytes
	NotSent   int           // see Options
}

// SetOn sets the options on the TCP connection under conn, if there is one. It ignores errors: a refused option is no reason to lose a client.
func (o TCP) SetOn(conn net.Conn) {
	tcp, ok := Unwrap[adjustable](conn)
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

// adjustable is a *net.TCPConn, or another connection with its methods.
type adjustable interface {
	net.Conn
	syscall.Conn
	SetNoDelay(noDelay bool) error
	SetKeepAliveConfig(config net.KeepAliveConfig) error
	SetWriteBuffer(bytes int) error
}

// Preread is a connection from which some bytes have been read already: Unread.
type Preread struct {
	net.Conn
	Unread []byte
}

// Read returns the bytes of Unread first.
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
