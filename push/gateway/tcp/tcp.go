// Package tcp has the transport of clients over TCP, TLS and Unix sockets. They speak the Protobuf form of the protocol: commands and replies with
// their length before them, as varints, and nothing around them. docs/tcp.md has the protocol in a page.
//
// The first command is connect. A ping of the server is an empty message, and so is its answer. When the server ends a connection, the last
// message is a push that says why (push.Disconnect); then comes the end of the stream. A client that ends its side has left.
//
// The connections are sessions of package session: on Linux they have no goroutine, also with TLS. Replies to one read leave in one write. Package
// sessionconn says how frames of the hub are written; the clients share them with those of other transports that speak Protobuf without framing.
package tcp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sessionconn"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
)

// Name is the default name of the metrics.
const Name = "tcp"

// refusedMost is how many connections that are refused may linger, so that their clients read why. Of further ones, some clients will only see
// that the connection is broken.
const refusedMost = 1024

// pendingMost is how many connections there may be besides the clients that Options.Sessions of the gateway admits: refused ones, and ones whose
// TLS handshake is not complete. Further ones are closed at once.
const pendingMost = 2 * refusedMost

// Options are a transport's settings. Nil means all defaults.
type Options struct {
	// Name is the transport's name in metrics; default Name. A gateway with several transports of this package needs several names.
	Name string
	// TLS makes the connections of all listeners use TLS; nil is none. The Config is not copied and must not be changed afterwards. Clients of a
	// Unix socket without TLS beside it need a second transport.
	TLS *tls.Config
	// Engine is what runs the connections; default event loops where there are any.
	Engine session.Engine
}

// Transport is the [gateway.Transport]. Its methods may be called concurrently.
type Transport struct {
	*sessionconn.Transport
	gateway *gateway.Gateway
	kind    *gateway.Kind
	server  *session.Server
	secure  bool // connections use TLS

	clients, refused atomic.Int64  // connections now: those of clients, and refused ones, which linger
	opened           atomic.Uint64 // connections that became clients
}

// New returns the transport, for a function that is passed to [gateway.New]. It uses the gateway's options FrameBytes, ConnectTimeout, SendBuffer,
// WriteTimeout, Linger, Sessions and Logger. The caller calls Serve.
func New(g *gateway.Gateway, o *Options) *Transport {
	var own Options
	if o != nil {
		own = *o
	}
	if own.Name == "" {
		own.Name = Name
	}
	t := &Transport{
		gateway: g,
		secure:  own.TLS != nil,
		kind:    gateway.NewKind(gateway.Encoder{Form: gateway.Protobuf{}, Framing: gateway.Bare{}}, gateway.TwoWay),
	}
	most := g.Options().FrameBytes
	so := sessionconn.Options(g.Options())
	so.MaxMessage = most + binary.MaxVarintLen64
	so.HandshakeTimeout = g.Options().ConnectTimeout
	so.FirstTimeout = -1 // the heartbeat bounds it by ConnectTimeout
	so.TLS, so.Engine = own.TLS, own.Engine
	so.Observer = &session.Observer{Refused: t.countRefused}
	if n := g.Options().Sessions; n > 0 {
		so.MaxSessions = n + pendingMost
	}
	t.server = session.NewServer(framer{codec.Length{Varint: true, Max: most}}, &session.Handler{
		Open:     t.open,
		Message:  t.message,
		Writable: func(s *session.Session) { sessionconn.Of(s).Writable() },
		Drain:    drain,
		Close:    t.closed,
	}, so)
	t.Transport = sessionconn.NewTransport(own.Name, t.server, t.kind)
	return t
}

// Serve accepts clients until Shutdown, when its error is net.ErrClosed, or until accepting fails for good. The listener is closed when Serve
// returns. Serve may be called several times, with different listeners: see [Listen]. All clients of Unix sockets count as one address.
func (t *Transport) Serve(l net.Listener) error {
	if err := t.server.Serve(l); err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	return nil
}

// Len implements gateway.Transport.
func (t *Transport) Len() int { return int(t.clients.Load()) }

// Stats implements gateway.Transport.
func (t *Transport) Stats() gateway.TransportStats {
	s := t.Transport.Stats()
	s.Clients, s.Opened = t.Len(), t.opened.Load()
	return s
}

// conn is the connection of a client.
type conn struct{ sessionconn.Conn }

// EndSession implements sessionconn.Value: the last message is a push that says why.
func (c *conn) EndSession(s *session.Session, last []byte, d push.Disconnect) {
	s.End(append(last, goodbye(c.Kind(), d)...), d)
}

func goodbye(k *gateway.Kind, d push.Disconnect) []byte {
	return k.Encoder().AppendPush(nil, &protocol.Push{Kind: protocol.PushDisconnect, Disconnect: d})
}

// open admits a client, after the TLS handshake if there is one.
func (t *Transport) open(s *session.Session) error {
	c := new(conn)
	r := t.request(s)
	if err := c.Arrive(t.gateway, t.kind, &c.Conn, r); err != nil {
		return t.refuse(s, err)
	}
	defer c.Arrived()
	t.clients.Add(1)
	t.opened.Add(1)
	c.Request = r
	s.SetValue(c)
	c.Start(s)
	return nil
}

// refuse tells a client that is not admitted why. The client has probably sent its first command already. If the connection was closed while that
// is unread, the kernel would reset it, and the client would not read the reason. So the connection lingers.
func (t *Transport) refuse(s *session.Session, why error) error {
	d := push.DisconnectTooManyRequests
	d.Reason += ": " + why.Error()
	if t.gateway.Admits() != nil {
		d = push.DisconnectShutdown
	}
	if t.refused.Add(1) > refusedMost {
		_ = s.Write(goodbye(t.kind, d)) // an error means that the client has left
		return d
	}
	s.End(goodbye(t.kind, d), d)
	return nil
}

// countRefused counts connections that failed before open, or that there were too many of. Arrive counts what open refuses.
func (t *Transport) countRefused(_ net.Addr, err error) {
	if !errors.As(err, new(push.Disconnect)) {
		t.gateway.RequestRefused()
	}
}

// request returns what is known of the client, in the form that Authenticate expects.
func (t *Transport) request(s *session.Session) *http.Request {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{}, Header: http.Header{}, RemoteAddr: s.RemoteAddr().String()}
	if !t.secure { // then Conn may cost a descriptor
		return r
	}
	if conn, ok := s.Conn().(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := conn.ConnectionState()
		r.TLS = &state
	}
	return r
}

// message handles a command of a client.
func (t *Transport) message(s *session.Session, frame []byte) {
	c := sessionconn.Of(s)
	if len(frame) > 0 {
		c.Message(frame)
		return
	}
	d := push.DisconnectBadRequest
	d.Reason = fmt.Sprintf("%s: a message has more than %d bytes, or no valid length", d.Reason, t.gateway.Options().FrameBytes)
	c.Disconnect(d)
}

// drain sends a client elsewhere. It may come before open, which is then not called any more.
func drain(s *session.Session) {
	if c := sessionconn.Of(s); c != nil {
		c.Drain(s)
		return
	}
	s.End(nil, push.DisconnectShutdown)
}

func (t *Transport) closed(s *session.Session, info *session.CloseInfo) {
	c := sessionconn.Of(s)
	if c == nil {
		t.refused.Add(-1)
		return
	}
	c.Closed(sessionconn.EndingOf(info))
	t.clients.Add(-1)
}

// framer is the codec: it finds where messages end, and leaves their length in front of them. Replies are complete already. A frame with a wrong
// length is an empty message: the client is told what is wrong with it before the connection ends, which an error of a codec does at once.
type framer struct{ length codec.Length }

// Decode implements session.Codec.
func (f framer) Decode(in []byte) (msg []byte, n int, err error) {
	switch _, n, err = f.length.Decode(in); {
	case err != nil:
		return in[:0], len(in), nil //nolint:nilerr // the empty message says it
	case n <= 0:
		return nil, n, nil
	}
	return in[:n:n], n, nil
}

// AppendEncode implements session.Codec.
func (framer) AppendEncode(dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }

// AppendHeader implements session.Prefixer.
func (framer) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, nil }
