package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
)

// accepted is the verdict of a node on a request that is carried out. Other verdicts are codes of the client protocol, such as 3500, or what a carrier
// has in their place: a status of HTTP, such as "status 403", or the name of a code of gRPC.
const accepted = "accepted"

// attacker makes the connections of one attack.
type attacker struct {
	t    *testing.T
	node *process
	from string // what X-Forwarded-For says; empty: the header is left out
}

// attackClient is a connection that a node has accepted.
type attackClient interface {
	// ask sends a command and returns the node's verdict. One-way clients have no commands.
	ask(cmd *protocol.Command) string
	close()
}

// attackCarrier is a carrier of the client protocol in one of its forms.
type attackCarrier struct {
	name      string
	transport string // the label of its metrics
	isOneWay  bool
	noTokens  bool // its messages have no place for the token of a subscription
	connect   func(a *attacker, r *protocol.ConnectRequest) (attackClient, string)
	// says returns how the carrier says a code in the answer to a connect request.
	says func(code uint32) string
}

// attackCarriers returns all carriers that a node has.
func attackCarriers() []attackCarrier {
	jsonRPC, web, native := rpcForm{connect.WithProtoJSON(), false}, rpcForm{connect.WithGRPCWeb(), false}, rpcForm{connect.WithGRPC(), true}
	return []attackCarrier{
		commandCarrier("websocket", "json"), commandCarrier("websocket", "protobuf"), commandCarrier("http_stream", "json"),
		commandCarrier("http_stream", "protobuf"), commandCarrier("sse", "json"), commandCarrier("grpc", "protobuf"), commandCarrier("tcp", "protobuf"),
		consumeCarrier("Connect", "connect", jsonRPC), consumeCarrier("gRPC-Web", "connect", web), consumeCarrier("gRPC Consume", "grpc", native),
		{name: "uni_websocket", transport: "uni_websocket", isOneWay: true, connect: connectOneWaySocket, says: inCloseCodes},
		{name: "uni_sse", transport: "uni_sse", isOneWay: true, connect: connectOneWayEvents, says: inStatuses},
		{name: "uni_http_stream", transport: "uni_http_stream", isOneWay: true, connect: connectOneWayStream, says: inStatuses},
		listenCarrier("unistream of Connect", "connect", jsonRPC), listenCarrier("unistream of gRPC-Web", "connect", web),
		listenCarrier("unistream of gRPC", "grpc", native),
	}
}

func inCodes(code uint32) string { return strconv.FormatUint(uint64(code), 10) }

// inCloseCodes is for clients that have no replies: each error is the end of the connection.
func inCloseCodes(code uint32) string {
	return map[uint32]string{100: "3004", 102: "3501", 103: "3507", 107: "3501", 109: "3005", 3500: "3500"}[code]
}

func inStatuses(code uint32) string {
	return map[uint32]string{
		100: "status 503", 102: "status 400", 103: "status 403", 107: "status 400", 109: "status 401", 3500: "status 403",
	}[code]
}

func inRPCCodes(code uint32) string {
	return map[uint32]string{
		100: "unavailable", 102: "invalid_argument", 103: "permission_denied", 107: "invalid_argument", 109: "unauthenticated", 3500: "unauthenticated",
	}[code]
}

// verdictOf returns the verdict that an answer contains.
func verdictOf(r *protocol.Reply, err error) string {
	var closed *clientconn.Closed
	var refused *clientconn.Refused
	switch {
	case errors.As(err, &closed):
		return inCodes(uint32(closed.Code))
	case errors.As(err, &refused) && refused.Status != 0:
		return fmt.Sprint("status ", refused.Status)
	case err != nil:
		return err.Error()
	case r.Error != nil:
		return inCodes(r.Error.Code)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushDisconnect:
		return inCodes(uint32(r.Push.Disconnect.Code))
	}
	return accepted
}

// commandCarrier is a carrier that package clientconn speaks.
func commandCarrier(transport, form string) attackCarrier {
	return attackCarrier{name: transport + " " + form, transport: transport, says: inCodes, connect: func(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
		o := &clientconn.Options{
			URL: "http://" + a.node.public, Transport: transport, Protocol: form, DialContext: a.dial,
			Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect, Connect: *r}},
		}
		ctx := testwait.Context(a.t)
		switch transport {
		case "tcp":
			o.URL, o.DialContext = "tcp://"+a.node.tcp, nil
		case "grpc":
			o.DialContext = nil
			if a.from != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "x-forwarded-for", a.from)
			}
		}
		conn, err := clientconn.Dial(ctx, o)
		if err != nil {
			return nil, verdictOf(nil, err)
		}
		c := &commandClient{t: a.t, conn: conn}
		var first protocol.Reply
		err = conn.Receive(ctx, &first)
		if v := verdictOf(&first, err); v != accepted {
			conn.Close()
			return nil, v
		}
		return c, accepted
	}}
}

type commandClient struct {
	t    *testing.T
	conn *clientconn.Conn
}

func (c *commandClient) close() { c.conn.Close() }

func (c *commandClient) ask(cmd *protocol.Command) string {
	ctx := testwait.Context(c.t)
	if err := c.conn.Send(ctx, cmd); err != nil {
		return err.Error()
	}
	for {
		var r protocol.Reply
		if err := c.conn.Receive(ctx, &r); err != nil || r.ID == cmd.ID {
			return verdictOf(&r, err)
		}
	}
}

// dial makes a connection that adds a field to each request of HTTP/1.
func (a *attacker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || a.from == "" {
		return conn, err
	}
	return &forwardedConn{Conn: conn, field: "X-Forwarded-For: " + a.from + "\r\n"}, nil
}

// forwardedConn adds a field to each request whose head is written at once, as net/http and package websocket do.
type forwardedConn struct {
	net.Conn
	field string
}

// Write implements net.Conn.
func (c *forwardedConn) Write(p []byte) (int, error) {
	line, rest, found := bytes.Cut(p, []byte("\r\n"))
	if !found || !bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(fmt.Appendf(nil, "%s\r\n%s%s", line, c.field, rest)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rpcForm is a protocol of calls.
type rpcForm struct {
	option connect.ClientOption
	http2  bool
}

// rpcHTTP returns a client of HTTP for calls.
func (a *attacker) rpcHTTP(f rpcForm) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!f.http2)
	tr.Protocols.SetUnencryptedHTTP2(f.http2)
	a.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// say adds the header of the attacker.
func (a *attacker) say(h http.Header) {
	if a.from != "" {
		h.Set("X-Forwarded-For", a.from)
	}
}

// rpcVerdict returns the verdict of a call that has ended. It has to have no headers or trailers but the node's own.
func rpcVerdict(t *testing.T, err error) string {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	if e.Meta().Get(injected) != "" {
		t.Errorf("the call has ended with %v", e.Meta())
	}
	return e.Code().String()
}

// consumeCarrier is the method Consume, with Send for further commands.
func consumeCarrier(name, transport string, f rpcForm) attackCarrier {
	return attackCarrier{name: name, transport: transport, says: inCodes, connect: func(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
		client := clientv1connect.NewClientClient(a.rpcHTTP(f), "http://"+a.node.public, f.option)
		request := connect.NewRequest(a.message(&protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: *r}))
		a.say(request.Header())
		s, err := client.Consume(testwait.Context(a.t), request)
		if err != nil {
			return nil, rpcVerdict(a.t, err)
		}
		c := &consumeClient{t: a.t, attacker: a, client: client, stream: s}
		first, v := c.receive()
		if v != accepted {
			c.close()
			return nil, v
		}
		c.session, c.node = first.Connect.Session, first.Connect.Node
		return c, accepted
	}}
}

// message returns a command as a message of Protobuf.
func (a *attacker) message(cmd *protocol.Command) *clientv1.Command {
	a.t.Helper()
	text, _, err := protobuf.Next(protobuf.AppendCommand(nil, cmd))
	out := new(clientv1.Command)
	must(a.t, errors.Join(err, proto.Unmarshal(text, out)))
	return out
}

type consumeClient struct {
	t             *testing.T
	attacker      *attacker
	client        clientv1connect.ClientClient
	stream        *connect.ServerStreamForClient[clientv1.Reply]
	session, node string
}

func (c *consumeClient) close() { _ = c.stream.Close() }

func (c *consumeClient) receive() (r protocol.Reply, verdict string) {
	if !c.stream.Receive() {
		return r, rpcVerdict(c.t, c.stream.Err())
	}
	text, err := proto.Marshal(c.stream.Msg())
	must(c.t, errors.Join(err, protobuf.DecodeReply(text, &r)))
	return r, verdictOf(&r, nil)
}

func (c *consumeClient) ask(cmd *protocol.Command) string {
	request := &clientv1.SendCommandsRequest{Session: c.session, Node: c.node, Commands: []*clientv1.Command{c.attacker.message(cmd)}}
	if _, err := c.client.Send(testwait.Context(c.t), connect.NewRequest(request)); err != nil {
		return rpcVerdict(c.t, err)
	}
	for {
		if r, v := c.receive(); r.ID == cmd.ID || v != accepted {
			return v
		}
	}
}

// listening is a connection of a one-way client.
type listening func()

func (l listening) close() { l() }

func (listening) ask(*protocol.Command) string { return "a one-way client has no commands" }

// connectJSON returns a connect request as one-way clients send it in JSON.
func connectJSON(r *protocol.ConnectRequest) string {
	text := json.AppendCommand(nil, &protocol.Command{Kind: protocol.KindConnect, Connect: *r})
	return strings.TrimSuffix(strings.TrimPrefix(string(text), `{"connect":`), "}")
}

func connectOneWaySocket(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
	ctx := testwait.Context(a.t)
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	a.say(o.HTTPHeader)
	conn, response, err := websocket.Dial(ctx, "ws://"+a.node.public+"/connection/uni_websocket", o)
	if err != nil {
		return nil, fmt.Sprint("status ", response.StatusCode)
	}
	_ = conn.Write(ctx, websocket.MessageText, []byte(connectJSON(r))) // the node may refuse it before its end
	if _, _, err := conn.Read(ctx); err != nil {
		_ = conn.CloseNow()
		return nil, fmt.Sprint(int(websocket.CloseStatus(err)))
	}
	return listening(func() { _ = conn.CloseNow() }), accepted
}

func connectOneWayEvents(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
	return a.listen(http.MethodGet, "/connection/uni_sse?cf_connect="+url.QueryEscape(connectJSON(r)), "")
}

func connectOneWayStream(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
	return a.listen(http.MethodPost, "/connection/uni_http_stream", connectJSON(r))
}

// listen sends a request whose response is the stream of a one-way client.
func (a *attacker) listen(method, path, body string) (attackClient, string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(a.t), method, "http://"+a.node.public+path, strings.NewReader(body))
	must(a.t, err)
	a.say(r.Header)
	tr := new(http.Transport)
	a.t.Cleanup(tr.CloseIdleConnections)
	response, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return nil, err.Error() // the node may refuse a long request before its end
	}
	if response.Header.Get(injected) != "" {
		a.t.Errorf("the response has the header %v", response.Header)
	}
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return nil, fmt.Sprint("status ", response.StatusCode)
	}
	return listening(func() { _ = response.Body.Close() }), accepted
}

// listenCarrier is the published one-way service.
func listenCarrier(name, transport string, f rpcForm) attackCarrier {
	return attackCarrier{name: name, transport: transport, isOneWay: true, noTokens: true, says: inRPCCodes, connect: func(a *attacker, r *protocol.ConnectRequest) (attackClient, string) {
		text, err := proto.Marshal(a.message(&protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: *r}).GetConnect())
		first := new(unistream.ConnectRequest) // its fields are those of the client protocol
		must(a.t, errors.Join(err, proto.Unmarshal(text, first)))
		request := connect.NewRequest(first)
		a.say(request.Header())
		client := unistreamconnect.NewCentrifugoUniStreamClient(a.rpcHTTP(f), "http://"+a.node.public, f.option)
		s, err := client.Consume(testwait.Context(a.t), request)
		if err != nil {
			return nil, rpcVerdict(a.t, err)
		}
		if !s.Receive() {
			defer func() { _ = s.Close() }()
			return nil, rpcVerdict(a.t, s.Err())
		}
		return listening(func() { _ = s.Close() }), accepted
	}}
}

// injected is a header that attackers try to have in the node's responses.
const injected = "Injected"
