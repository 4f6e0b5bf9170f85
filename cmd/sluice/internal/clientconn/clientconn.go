// Package clientconn connects to a node as a client does: with each transport, in each form of the client protocol. It knows messages and no more;
// what they mean is the caller's business.
package clientconn

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// maxMessage is the longest message that is received, in bytes.
const maxMessage = 64 << 20

// Options say where and how to connect.
type Options struct {
	URL       string // the node's public address, such as http://127.0.0.1:8000
	Transport string // one of Transports; empty: websocket
	Protocol  string // one of Protocols; empty: json, or protobuf where the transport has nothing else
	Commands  []*protocol.Command

	// DialContext makes the connections of a transport, of which there may be several. If it is nil, they are made in the usual way.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// dialFunc is the type of Options.DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Protocols are the forms of the client protocol.
func Protocols() []string { return []string{"json", "protobuf"} }

// transport dials connections of one kind.
type transport struct {
	name  string
	forms []string // the first is the default
	dial  func(ctx context.Context, base *url.URL, f form, first []byte, dial dialFunc) (stream, error)
}

// transports are all there are.
func transports() []transport {
	return []transport{
		{"websocket", Protocols(), dialWebSocket},
		{"sse", []string{"json"}, dialSSE},
		{"http_stream", Protocols(), dialHTTPStream},
		{"grpc", []string{"protobuf"}, dialGRPC},
		{"tcp", []string{"protobuf"}, dialTCP},
	}
}

// Transports are the names of the transports.
func Transports() (names []string) {
	for _, t := range transports() {
		names = append(names, t.name)
	}
	return names
}

// ProtocolsOf are the forms that a transport carries, the default first. An empty name stands for websocket. There are none for any other name that
// is not one of Transports.
func ProtocolsOf(name string) []string {
	for _, t := range transports() {
		if t.name == cmp.Or(name, "websocket") {
			return t.forms
		}
	}
	return nil
}

// find returns the transport and the form of options.
func (o *Options) find() (t transport, f form, err error) {
	for _, t = range transports() {
		if t.name != cmp.Or(o.Transport, "websocket") {
			continue
		}
		for _, name := range t.forms {
			if o.Protocol == name || o.Protocol == "" {
				return t, formOf(name), nil
			}
		}
		return t, nil, fmt.Errorf("transport %s does not carry the protocol %q: use %s", t.name, o.Protocol, strings.Join(t.forms, " or "))
	}
	return t, nil, fmt.Errorf("transport %q is not known: use %s", o.Transport, strings.Join(Transports(), ", "))
}

// Validate reports options that cannot work together. It does not look at an empty URL.
func (o *Options) Validate() error {
	_, _, err := o.find()
	if err == nil && o.URL != "" {
		_, err = o.base()
	}
	return err
}

// base returns the URL without a slash at its end.
func (o *Options) base() (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if o.Transport == "tcp" {
		if err != nil || networkOf(base) == "" {
			return nil, fmt.Errorf("%q is no address for the transport tcp: write tcp://HOST:PORT, tls://HOST:PORT or unix:/PATH, "+
				"as tcp.listen of the node says", o.URL)
		}
		return base, nil
	}
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%q is no address of a node: write it as in http://127.0.0.1:8000", o.URL)
	}
	return base, nil
}

// stream is what a transport gives: frames in both directions. Receive and Send may be called concurrently with each other, and Close with both.
type stream interface {
	// Send sends a frame of commands.
	Send(ctx context.Context, frame []byte) error
	// Receive returns the next frame, which is valid until the next call. An error is a *[Closed] where the wire says why the connection ended.
	Receive(ctx context.Context) ([]byte, error)
	Close()
}

// sessionTaker is a stream that needs to know the session of the connect reply: its commands go beside it.
type sessionTaker interface {
	session(r *protocol.ConnectResult)
}

// Closed is how the node ended a connection.
type Closed struct{ push.Disconnect }

// Error implements error.
func (c *Closed) Error() string {
	return fmt.Sprintf("the node closed the connection: %s (code %d)", c.Reason, c.Code)
}

// Conn is a connection. Send may be called concurrently with everything; Receive by one goroutine at a time.
type Conn struct {
	stream stream
	form   form
	frame  []byte // what is left of the last frame
	pongs  bool   // the node wants its pings answered
}

// Dial connects and sends the first commands, of which the first is the connect command.
func Dial(ctx context.Context, o *Options) (*Conn, error) {
	t, f, err := o.find()
	if err != nil {
		return nil, err
	}
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	s, err := t.dial(ctx, base, f, frameOf(f, o.Commands), o.DialContext)
	if err != nil {
		return nil, err
	}
	return &Conn{stream: s, form: f}, nil
}

// Send sends commands.
func (c *Conn) Send(ctx context.Context, commands ...*protocol.Command) error {
	return c.stream.Send(ctx, frameOf(c.form, commands))
}

// Receive waits for the next reply that is no ping; pings are answered. The reply is valid until the next call.
func (c *Conn) Receive(ctx context.Context, r *protocol.Reply) error {
	for {
		message, rest, err := c.form.next(c.frame)
		if err != nil {
			return err
		}
		if message == nil {
			if c.frame, err = c.stream.Receive(ctx); err != nil {
				return err
			}
			continue
		}
		c.frame = rest
		if err := c.form.decode(message, r); err != nil {
			return fmt.Errorf("the node does not speak the Sluice protocol: %w; check the URL", err)
		}
		switch {
		case r.IsPing():
			if c.pongs {
				if err := c.stream.Send(ctx, frameOf(c.form, []*protocol.Command{{}})); err != nil {
					return err
				}
			}
			continue
		case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushDisconnect:
			return &Closed{r.Push.Disconnect}
		case r.Kind == protocol.KindConnect && r.Error == nil:
			c.pongs = r.Connect.Pong
			if s, ok := c.stream.(sessionTaker); ok {
				s.session(&r.Connect)
			}
		}
		return nil
	}
}

// SendFrame sends a frame of commands that the caller has encoded.
func (c *Conn) SendFrame(ctx context.Context, frame []byte) error { return c.stream.Send(ctx, frame) }

// ReceiveFrame waits for the next frame, for callers that decode messages themselves: it answers no pings, and an announced end is a message like
// others. The first reply is for Receive, because some transports need what it says; then ReceiveFrame begins with what is left of that frame. A
// frame is valid until the next call.
func (c *Conn) ReceiveFrame(ctx context.Context) ([]byte, error) {
	if frame := c.frame; len(frame) > 0 {
		c.frame = nil
		return frame, nil
	}
	return c.stream.Receive(ctx)
}

// Close ends the connection.
func (c *Conn) Close() { c.stream.Close() }

// form is a form of the client protocol.
type form interface {
	appendCommand(dst []byte, cmd *protocol.Command) []byte
	next(frame []byte) (message, rest []byte, err error)
	decode(message []byte, r *protocol.Reply) error
	isBinary() bool
}

func formOf(name string) form {
	if name == "protobuf" {
		return protobufForm{}
	}
	return jsonForm{}
}

func frameOf(f form, commands []*protocol.Command) (frame []byte) {
	for _, cmd := range commands {
		frame = f.appendCommand(frame, cmd)
	}
	return frame
}

type jsonForm struct{}

func (jsonForm) appendCommand(dst []byte, cmd *protocol.Command) []byte {
	return append(json.AppendCommand(dst, cmd), '\n')
}

func (jsonForm) next(frame []byte) (message, rest []byte, err error) {
	message, rest = json.NextLine(frame)
	return message, rest, nil
}

func (jsonForm) decode(message []byte, r *protocol.Reply) error { return json.DecodeReply(message, r) }

func (jsonForm) isBinary() bool { return false }

type protobufForm struct{}

func (protobufForm) appendCommand(dst []byte, cmd *protocol.Command) []byte {
	return protobuf.AppendCommand(dst, cmd)
}

func (protobufForm) next(frame []byte) (message, rest []byte, err error) { return protobuf.Next(frame) }

func (protobufForm) decode(message []byte, r *protocol.Reply) error {
	return protobuf.DecodeReply(message, r)
}

func (protobufForm) isBinary() bool { return true }
