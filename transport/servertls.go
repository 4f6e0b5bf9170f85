package transport

import (
	"crypto/tls"
	"net"

	"github.com/sluice-push/sluice/internal/tlsmem"
)

// ServerTLS returns the server's end of a TLS connection over conn, as [tls.Server] does, with which it is the same for all other uses. In addition,
// a server of package session can run a session on an event loop over it, once the handshake is complete, if conn is a *net.TCPConn or a
// *net.UnixConn. So a connection may speak another protocol first, such as HTTP until it is upgraded, and cost little when it is idle afterwards.
func ServerTLS(conn net.Conn, config *tls.Config) *tls.Conn {
	return tlsmem.NewServer(conn, config, plainEnds{conn}, nil).TLS()
}

// plainEnds is the ends of a connection that no session has taken over.
type plainEnds struct{ net.Conn }

// Socket implements tlsmem.Underlying.
func (s plainEnds) Socket() net.Conn { return s.Conn }
