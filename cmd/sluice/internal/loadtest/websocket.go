package loadtest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// webSocketDialer connects clients by WebSocket. Event loops run the clients that read, so these have no goroutine each. A client that stalls has a
// goroutine of its own, because its message handler blocks.
type webSocketDialer struct {
	group     *group
	eventLoop *websocket.Client // for the clients that read
	goroutine *websocket.Client // for the clients that stall
	attempts  sync.Map          // endsOf the connection → *attempt, from the TCP connection until onOpen
}

// maxMessage is the size of the largest message that a server may send. One message can hold all publications that a client has missed.
const maxMessage = 64 << 20

// protobufSubprotocol is the subprotocol of WebSocket for the Protobuf form.
const protobufSubprotocol = "centrifuge-protobuf"

func newWebSocketDialer(g *group) *webSocketDialer {
	d := &webSocketDialer{group: g}
	handler := websocket.Handler{
		Open:    func(ws *websocket.Conn, _ *websocket.Request) error { return d.onOpen(ws) },
		Message: d.onMessage,
		Drain:   func(ws *websocket.Conn) { ws.CloseNow() },
		Close:   d.onClose,
	}
	options := websocket.Options{MaxMessage: maxMessage, DialContext: d.dialTCP}
	if g.plan.spec.Protocol == Protobuf {
		options.Subprotocols = []string{protobufSubprotocol}
	}
	options.Session.HandshakeTimeout = -1 // the context of Dial bounds the handshake
	d.eventLoop = websocket.NewClient(&handler, &options)
	options.Session.Engine = session.EngineGoroutine
	d.goroutine = websocket.NewClient(&handler, &options)
	return d
}

// attemptKey is the context key under which dialTCP finds the attempt.
type attemptKey struct{}

// attempt is a connection of a client that is being established.
type attempt struct {
	client *client
	ends   string // endsOf the connection, by which onOpen finds the attempt
}

func (d *webSocketDialer) dial(ctx context.Context, c *client, address string, commands []*protocol.Command) (connection, error) {
	client := d.eventLoop
	if c.stalls {
		client = d.goroutine
	}
	a := &attempt{client: c}
	ws, err := client.Dial(context.WithValue(ctx, attemptKey{}, a), address)
	if err != nil {
		d.attempts.Delete(a.ends)
		return nil, err
	}
	g := d.group
	if g.plan.spec.Protocol == Protobuf && ws.Subprotocol() != protobufSubprotocol {
		ws.CloseNow()
		return nil, errors.New("the server does not accept the subprotocol " + protobufSubprotocol)
	}
	var frame []byte
	for _, cmd := range commands {
		frame = g.form.appendCommand(frame, cmd)
	}
	if len(frame) > 0 {
		if err := ws.Send(g.op, frame); err != nil {
			ws.CloseNow()
			return nil, err
		}
	}
	return ws, nil
}

// dialTCP is the DialContext function of the WebSocket clients.
func (d *webSocketDialer) dialTCP(ctx context.Context, protocol, address string) (net.Conn, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("loadtest: no client to dial for")
	}
	conn, err := d.group.dialTCP(ctx, a.client, protocol, address)
	if err != nil {
		return nil, err
	}
	a.ends = endsOf(conn)
	d.attempts.Store(a.ends, a)
	return conn, nil
}

// endsOf returns both addresses of a connection. One alone is not enough: connections to different nodes may have the same local address.
func endsOf(conn addressed) string {
	return conn.LocalAddr().String() + " " + conn.RemoteAddr().String()
}

type addressed interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// onOpen is the Open handler: it assigns a new connection to the client that dialed it. No message has been read yet.
func (d *webSocketDialer) onOpen(ws *websocket.Conn) error {
	v, ok := d.attempts.LoadAndDelete(endsOf(ws))
	if !ok {
		return errors.New("loadtest: unknown connection")
	}
	c := v.(*attempt).client
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	ws.SetValue(c)
	c.conn = ws
	if d.group.plan.spec.Protocol == Plain {
		d.group.markSubscribedLocked(c) // a plain server subscribes each connection to everything
	}
	return nil
}

// onMessage is the Message handler.
func (d *webSocketDialer) onMessage(ws *websocket.Conn, m websocket.Message) {
	if c, ok := ws.Value().(*client); ok {
		d.group.handleFrame(ws, c, m.Data)
	}
}

// onClose is the Close handler.
func (d *webSocketDialer) onClose(ws *websocket.Conn, info *session.CloseInfo) {
	if c, ok := ws.Value().(*client); ok {
		d.group.connectionEnded(ws, c, info.Err)
	}
}

func (d *webSocketDialer) close() {
	_ = d.eventLoop.Close()
	_ = d.goroutine.Close()
}
