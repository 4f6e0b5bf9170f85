package tcp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// engines are what runs connections, for tests of both.
var engines = map[string]session.Engine{"loop": session.EngineLoop, "goroutine": session.EngineGoroutine}

func eachEngine(t *testing.T, test func(t *testing.T, o *tcp.Options)) {
	t.Helper()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) { test(t, &tcp.Options{Engine: engine}) })
	}
}

// place is a node under test: broker, hub and gateway, with the transport.
type place struct {
	t       testing.TB
	hub     *hub.Hub
	gateway *gateway.Gateway
	clients *tcp.Transport
	address net.Addr
	client  *tls.Config // of clients; nil is no TLS
}

// newPlace starts a node that listens on loopback. It is shut down at the end of the test.
func newPlace(t testing.TB, g *gateway.Options, o *tcp.Options) *place {
	t.Helper()
	l, err := tcp.Listen(t.Context(), "127.0.0.1:0", nil)
	must(t, err)
	return newPlaceOn(t, l, g, o)
}

// newPlaceOn is newPlace on a listener.
func newPlaceOn(t testing.TB, l net.Listener, g *gateway.Options, o *tcp.Options) *place {
	t.Helper()
	b := memory.New(nil)
	space := func(name string, size int) hub.Namespace {
		n := broker.Namespace{Name: name, Mode: push.Stream, History: push.History{Size: size}, Partitions: 1}
		return hub.Namespace{Namespace: n, Presence: name == "chat"}
	}
	h, err := hub.New(t.Context(), b, []hub.Namespace{space("", 1000), space("chat", 10)}, nil)
	must(t, err)
	own := gateway.Options{Version: "v1"}
	if g != nil {
		own = *g
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p := &place{t: t, hub: h, address: l.Addr()}
	p.gateway = gateway.New(h, &own, func(g *gateway.Gateway) gateway.Transport {
		p.clients = tcp.New(g, o)
		return p.clients
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := p.clients.Serve(l); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		_ = p.shutdownWithin(0)
		testwait.Return(t, serving.Wait)
		must(t, h.Close())
		must(t, b.Close())
	})
	return p
}

func (p *place) publish(channel, data string) {
	p.t.Helper()
	_, err := p.hub.Publish(testwait.Context(p.t), channel, push.Publication{Data: []byte(data)}, "")
	must(p.t, err)
}

// shutdownWithin ends the gateway with some patience.
func (p *place) shutdownWithin(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return p.gateway.Shutdown(ctx)
}

// stats returns the counts of the transport.
func (p *place) stats() gateway.TransportStats { return p.gateway.Stats().Transports[tcp.Name] }

// client is a client that says exactly what the test says, and sees exactly what comes.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// dial opens a connection and sends nothing.
func (p *place) dial() *client {
	p.t.Helper()
	conn, err := new(net.Dialer).DialContext(testwait.Context(p.t), p.address.Network(), p.address.String())
	must(p.t, err)
	if p.client != nil {
		conn = tls.Client(conn, p.client)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return newClient(p.t, conn)
}

func newClient(t testing.TB, conn net.Conn) *client {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(testwait.Bound)))
	return &client{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// connect opens a connection and connects.
func (p *place) connect() *client {
	p.t.Helper()
	c := p.dial()
	if r := c.ask(protocol.Command{Kind: protocol.KindConnect}); r.Connect.Client == "" {
		p.t.Fatalf("connecting was answered %s", text(r))
	}
	return c
}

// subscribe is connect with a subscription.
func (p *place) subscribe(channel string) (*client, protocol.SubscribeResult) {
	p.t.Helper()
	c := p.connect()
	return c, c.subscribe(protocol.SubscribeRequest{Channel: channel})
}

func (c *client) subscribe(r protocol.SubscribeRequest) protocol.SubscribeResult {
	c.t.Helper()
	return c.ask(protocol.Command{Kind: protocol.KindSubscribe, Subscribe: r}).Subscribe
}

// write sends bytes.
func (c *client) write(b []byte) {
	c.t.Helper()
	_, err := c.conn.Write(b)
	must(c.t, err)
}

// send sends commands in one write.
func (c *client) send(commands ...protocol.Command) {
	c.t.Helper()
	var b []byte
	for i := range commands {
		b = protobuf.AppendCommand(b, &commands[i])
	}
	c.write(b)
}

// ask sends a command and returns the answer, which must be the next message and no error.
func (c *client) ask(cmd protocol.Command) protocol.Reply {
	c.t.Helper()
	cmd.ID = 7
	c.send(cmd)
	r := c.receive()
	if r.ID != 7 || r.Kind != cmd.Kind || r.Error != nil {
		c.t.Fatalf("%v was answered %s", cmd.Kind, text(r))
	}
	return r
}

// receive returns the next message.
func (c *client) receive() protocol.Reply {
	c.t.Helper()
	r, err := c.read()
	must(c.t, err)
	return r
}

func (c *client) read() (r protocol.Reply, err error) {
	size, err := binary.ReadUvarint(c.in)
	if err != nil {
		return r, err
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(c.in, message); err != nil {
		return r, err
	}
	return r, protobuf.DecodeReply(message, &r)
}

// want fails the test unless the next messages are publications of a channel with the given data.
func (c *client) want(channel string, all ...string) {
	c.t.Helper()
	for _, data := range all {
		r := c.receive()
		if p := r.Push; p.Kind != protocol.PushPublication || p.Channel != channel || string(p.Publication.Data) != data {
			c.t.Fatalf("received %s, want %s", text(r), data)
		}
	}
}

// wantEnd fails the test unless the server says a disconnect next, and then ends the connection.
func (c *client) wantEnd(d push.Disconnect) {
	c.t.Helper()
	r := c.receive()
	if r.Push.Kind != protocol.PushDisconnect || r.Push.Disconnect != d {
		c.t.Fatalf("received %s, want the disconnect %v", text(r), d)
	}
	if r, err := c.read(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("after the disconnect: %s, %v", text(r), err)
	}
	must(c.t, c.conn.Close())
}

// text is what a reply says, in the JSON form.
func text(r protocol.Reply) string { return string(json.AppendReply(nil, &r)) }

// badRequest is the disconnect of clients that make mistakes.
func badRequest(format string, args ...any) push.Disconnect {
	d := push.DisconnectBadRequest
	d.Reason += ": " + fmt.Sprintf(format, args...)
	return d
}

// refuseAll is an Authenticate hook.
func refuseAll(context.Context, string, *http.Request) (gateway.Identity, error) {
	return gateway.Identity{}, push.DisconnectInvalidToken
}
