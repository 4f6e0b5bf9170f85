package session

import (
	"crypto/tls"
	"net"
)

// secures reports whether TLS is to be begun on conn: it is configured, and conn does not speak it already.
func (srv *Server) secures(conn net.Conn) bool {
	if srv.o.TLS == nil {
		return false
	}
	_, secure := conn.(interface{ ConnectionState() tls.ConnectionState })
	return !secure
}

// preread is a connection of which some bytes were read already.
type preread struct {
	net.Conn
	unread []byte
}

// Read returns those first.
func (c *preread) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// NetConn returns the connection, as the method of tls.Conn does.
func (c *preread) NetConn() net.Conn { return c.Conn }
