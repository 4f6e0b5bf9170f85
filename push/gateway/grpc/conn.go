package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/transport"
)

// errNoH2 refuses a client of TLS that did not agree on HTTP/2.
var errNoH2 = errors.New("the client has not offered h2 by ALPN")

// conn is a connection on which a write fails that takes too long: the client reads nothing.
type conn struct {
	net.Conn
	timeout time.Duration // 0: none
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.timeout > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// security is what the calls of a connection know of it, its credentials.AuthInfo.
type security struct {
	credentials.CommonAuthInfo
	conn *conn
	tls  *tls.ConnectionState // nil without TLS
}

// AuthType implements credentials.AuthInfo.
func (*security) AuthType() string { return "sluice" }

// handshaker is the credentials.TransportCredentials of the server. It completes the handshake of connections of package crypto/tls, leaves others
// as they are, and wraps both.
type handshaker struct {
	timeout    time.Duration // of a write; 0: none
	sendBuffer int           // of the kernel; 0 leaves it to the system

	begin func(raw net.Conn) error // reads what comes before the handshake
}

// ServerHandshake implements credentials.TransportCredentials. The server has set a deadline.
func (h *handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := h.begin(raw); err != nil {
		return nil, nil, err
	}
	s := &security{conn: &conn{Conn: raw, timeout: h.timeout}}
	s.SecurityLevel = credentials.NoSecurity
	if t, ok := raw.(*tls.Conn); ok {
		if err := t.HandshakeContext(context.Background()); err != nil { //nolint:contextcheck // the deadline bounds it
			return nil, nil, err
		}
		state := t.ConnectionState()
		if state.NegotiatedProtocol != "h2" {
			return nil, nil, errNoH2
		}
		s.tls, s.SecurityLevel = &state, credentials.PrivacyAndIntegrity
	}
	if tcp, ok := below(raw).(*net.TCPConn); ok && h.sendBuffer > 0 {
		_ = tcp.SetWriteBuffer(h.sendBuffer) // the connection works with the default buffer as well
	}
	return s.conn, s, nil
}

// readProxyHeader reads the PROXY header of a connection from a trusted proxy, and returns nil for all other connections. It counts a connection
// without a valid header. Shutdown ends it.
func (t *Transport) readProxyHeader(raw net.Conn) error {
	p, ok := sockopt.Unwrap[*transport.ProxyConn](raw)
	if !ok {
		return nil
	}
	err := p.HandshakeContext(t.serving)
	if err != nil && t.serving.Err() == nil {
		t.gateway.RequestRefused()
	}
	return err
}

// below returns the connection below all that wrap it and say so, as tls.Conn does.
func below(c net.Conn) net.Conn {
	for {
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapper.NetConn()
	}
}

// ClientHandshake implements credentials.TransportCredentials. It is not called.
func (*handshaker) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info implements credentials.TransportCredentials.
func (*handshaker) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (h *handshaker) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials. It has no effect.
func (*handshaker) OverrideServerName(string) error { return nil }
