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
