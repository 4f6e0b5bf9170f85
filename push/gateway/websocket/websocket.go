// Package websocket has the transports of WebSocket clients (RFC 6455): that of clients that send commands, in the JSON or the Protobuf form, and
// that of clients that only listen.
//
// A client asks for the Protobuf form by the subprotocol centrifuge-protobuf, or by format=protobuf in the query. A client that only listens sends
// one message, its connect request in JSON; or it has that in the query parameter cf_connect and sends nothing.
//
// The transport takes the connection from net/http, whose memory is released, and makes a session of package session of it: on Linux a connection
// has no goroutine. The session's handler passes frames of commands on to the client, in order; replies to one read leave in one write. Package
// sessionconn says how frames of the hub are written.
package websocket

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/compression"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sessionconn"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// frameSlack is what a message may be larger than its payload on the wire (RFC 6455 §5.2).
const frameSlack = 14

// deflateSlack is what a small message may be larger than its payload when it is compressed; a large one by an eighth of it. Package wire has the
// same bounds.
const deflateSlack = 64

// Where clients connect, and the names of the metrics.
const (
	Path       = "/connection/websocket"
	Name       = "websocket"
	OneWayPath = "/connection/uni_websocket"
	OneWayName = "uni_websocket"
)

// transport is the [gateway.HTTPTransport] of both.
type transport struct {
	*sessionconn.Transport
	gateway        *gateway.Gateway
	patterns       []string
	server         *session.Server
	json, protobuf *variant // protobuf is nil with clients that only listen
}

// variant is a form of the protocol.
type variant struct {
	kind     *gateway.Kind
	deflated *gateway.Kind  // of clients with whom the handshake has agreed on compression
	endpoint *wire.Endpoint // what the handshakes of all clients have in common
}

// New returns the transport of clients that send commands, for [gateway.New]. It uses the options FrameBytes, SendBuffer, WriteTimeout, Linger and
// Logger.
func New(g *gateway.Gateway) gateway.Transport {
	t := newTransport(g, Path)
	t.json = newVariant(g, gateway.JSON{}, wire.OpText, gateway.TwoWay, jsonSubprotocol)
	t.protobuf = newVariant(g, gateway.Protobuf{}, wire.OpBinary, gateway.TwoWay, protobufSubprotocol)
	t.Transport = sessionconn.NewTransport(Name, t.server, t.json.kind, t.json.deflated, t.protobuf.kind, t.protobuf.deflated)
	return t
}

// NewOneWay returns the transport of clients that only listen, for [gateway.New]. It uses the same options as New.
func NewOneWay(g *gateway.Gateway) gateway.Transport {
	t := newTransport(g, OneWayPath)
	t.json = newVariant(g, gateway.JSON{Bare: true}, wire.OpText, gateway.OneWay)
	t.Transport = sessionconn.NewTransport(OneWayName, t.server, t.json.kind, t.json.deflated)
	return t
}

func newVariant(g *gateway.Gateway, f gateway.Form, op wire.Opcode, way gateway.Way, subprotocols ...string) *variant {
	return &variant{
		kind:     gateway.NewKind(gateway.Encoder{Form: f, Framing: framing{op: op}}, way),
		deflated: gateway.NewKind(gateway.Encoder{Form: f, Framing: framing{op: op, deflates: true}}, way),
		endpoint: wire.NewEndpoint(&wire.Options{
			Compression:  compressionOf(g.Options()),
			MaxMessage:   g.Options().FrameBytes,
			CheckOrigin:  func(r *wire.Request) bool { return g.AllowsOrigin(r.Origin, r.Host) },
			Opcode:       op,
			Subprotocols: subprotocols,
		}),
	}
}

// compressionOf returns how messages are compressed. Each is compressed on its own, so that clients share frames and cost no memory. A client that
// asks for a window that is smaller than ours could not share them; nothing is compressed for it.
func compressionOf(o *gateway.Options) *wire.Compression {
	if !o.Compression {
		return nil
	}
	return &wire.Compression{Threshold: compression.Threshold, NewDeflater: func(_, windowBits int) wire.Deflater {
		if windowBits != compression.MessageBits {
			return nil
		}
		return deflater{}
	}}
}

// deflater compresses messages on their own.
type deflater struct{}

// Append implements wire.Deflater.
func (deflater) Append(dst, message []byte) []byte { return compression.AppendDeflated(dst, message) }

// Reset implements wire.Deflater.
func (deflater) Reset() {}

func newTransport(g *gateway.Gateway, path string) *transport {
	o := sessionconn.Options(g.Options())
	o.MaxMessage = g.Options().FrameBytes + frameSlack
	if g.Options().Compression {
		o.MaxMessage += g.Options().FrameBytes/8 + deflateSlack
	}
	t := &transport{gateway: g, patterns: []string{"GET " + path}}
	t.server = session.NewServer(nil, &session.Handler{
		Open:     func(s *session.Session) error { connOf(s).open(s); return nil },
		Message:  func(s *session.Session, frame []byte) { connOf(s).message(frame) },
		Writable: func(s *session.Session) { connOf(s).Writable() },
		Drain:    func(s *session.Session) { connOf(s).Drain(s) },
		Close:    func(s *session.Session, info *session.CloseInfo) { connOf(s).Closed(endingOf(info)) },
	}, o)
	return t
}

// endingOf says how a connection ended that the gateway has not ended with a code. The codec ends it, with a close code of WebSocket, if the client
// breaks a rule: a message that is too large, or frames that are not valid.
func endingOf(info *session.CloseInfo) gateway.Ending {
	if closed, ok := errors.AsType[*wire.CloseError](info.Err); ok && info.By == session.ByError && !closed.Remote {
		return gateway.EndedByMistake
	}
	return sessionconn.EndingOf(info)
}

// ServeHTTP answers a handshake. It does not block.
func (t *transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := t.gateway
	v := t.json
	if speaksProtobuf(r) {
		v = t.protobuf
	}
	if v == nil {
		g.RequestRefused()
		gateway.Refuse(w, r, http.StatusBadRequest, "clients that only listen are sent JSON: for Protobuf connect to "+Path)
		return
	}
	c := new(conn)
	if err := c.Arrive(g, v.kind, &c.Conn, r); err != nil {
		gateway.RefuseArrival(w, r, err)
		return
	}
	defer c.Arrived()
	up, err := v.endpoint.Upgrade(&c.codec, w, r)
	if err != nil {
		c.Refused()
		t.countRefused(err, r)
		g.Options().Logger.Debug("WebSocket handshake refused", "remote", r.RemoteAddr, "error", err)
		return
	}
	if c.codec.Compresses(compression.Threshold) {
		c.SetKind(v.deflated)
	}
	c.Request = r.WithContext(context.Background()) // it outlives the handshake
	if _, err := t.server.ServeConn(up.Conn, &session.Attach{Codec: &c.codec, Initial: up.Unread, Value: c}); err != nil {
		c.Refused()
	}
}

// countRefused counts a handshake that wire refused.
func (t *transport) countRefused(err error, r *http.Request) {
	if refusal := new(wire.Refusal); errors.As(err, &refusal) && refusal.Status == http.StatusForbidden {
		t.gateway.OriginRefused(r)
		return
	}
	t.gateway.RequestRefused()
}

func (t *transport) Patterns() []string { return t.patterns }

func (*transport) NeverBlocks() bool { return true }

// conn is one WebSocket connection.
type conn struct {
	sessionconn.Conn
	codec wire.Codec
}

func connOf(s *session.Session) *conn { return s.Value().(*conn) } //nolint:forcetypeassert // all have one

// open is called when the connection is a session.
func (c *conn) open(s *session.Session) {
	c.Start(s)
	if c.Kind().Way() == gateway.OneWay && c.Request.URL.Query().Has("cf_connect") {
		c.connect([]byte(c.Request.URL.Query().Get("cf_connect")))
	}
}

// message handles what a client sends.
func (c *conn) message(frame []byte) {
	switch {
	case c.Kind().Way() != gateway.OneWay:
		c.Message(frame)
	case !c.Listens():
		c.connect(frame)
	default: // a client that only listens may say what it wants
	}
}

// connect connects a client that only listens. The hub's frames are taken when the client knows that it is connected.
func (c *conn) connect(request []byte) {
	hello, err := c.ConnectAlone(request)
	if err != nil {
		c.Disconnect(gateway.DisconnectFor(err))
		return
	}
	if c.Reply(hello) == nil {
		c.Listen()
	}
}

// EndSession implements sessionconn.Value: the client is sent a close frame, which it answers.
func (c *conn) EndSession(s *session.Session, last []byte, d push.Disconnect) {
	s.EndWait(c.codec.AppendClose(last, d.Code, d.Reason), d)
}

// messageBytes is up to about how large messages with several publications are: more bytes do not make them cheaper to send, and clients
// have limits.
const messageBytes = 32 << 10

// deflatedBit in the first byte of a frame says that its message is compressed (RFC 7692, section 6).
const deflatedBit = 0x40

// framing makes one message of a frame. The message's header is written in front of it when its length is known.
type framing struct {
	op       wire.Opcode
	deflates bool // messages that become smaller are compressed
}

func (framing) FrameBytes() int { return messageBytes }

func (framing) Begin(dst []byte) []byte {
	return append(dst, make([]byte, wire.HeaderSpace)...)
}

func (f framing) Finish(dst []byte, start int) []byte {
	isDeflated := false
	if f.deflates {
		dst, isDeflated = compression.Shrink(dst, start+wire.HeaderSpace, compression.AppendDeflated)
	}
	frame := wire.FrameInPlace(dst[start:], f.op)
	if isDeflated {
		frame[0] |= deflatedBit
	}
	if start == 0 {
		return frame
	}
	return append(dst[:start], frame...)
}

// speaksProtobuf reports whether a client of WebSocket asks for the Protobuf form of the protocol, by any of the ways of the official SDKs.
func speaksProtobuf(r *http.Request) bool {
	q := r.URL.Query()
	if q.Get("format") == "protobuf" || q.Get("cf_protocol") == "protobuf" {
		return true
	}
	offered := strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ",")
	return strings.Contains(offered, protobufSubprotocol) && !strings.Contains(offered, jsonSubprotocol)
}

// The subprotocols of the forms.
const (
	jsonSubprotocol     = "centrifuge-json"
	protobufSubprotocol = "centrifuge-protobuf"
)
