package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// feedKind is a way in which clients connect.
type feedKind struct {
	name      string
	transport feedTransport
	tcp       bool // the clients connect to the node's port for TCP
	oneWay    bool // the clients only listen
}

// feedKinds returns every transport in each of its forms.
func feedKinds() []feedKind {
	kinds := []feedKind{{name: "WebSocket of another implementation", transport: overWebSocket}}
	for _, transport := range clientconn.Transports() {
		for _, form := range clientconn.ProtocolsOf(transport) {
			kinds = append(kinds, feedKind{name: transport + " " + form, transport: overConn(transport, form), tcp: transport == "tcp"})
		}
	}
	return append(kinds,
		feedKind{name: "Connect JSON", transport: overConsume(connect.WithProtoJSON())},
		feedKind{name: "gRPC-Web", transport: overConsume(connect.WithGRPCWeb())},
		feedKind{name: "uni_sse", transport: overSSE, oneWay: true},
		feedKind{name: "uni_http_stream", transport: overLines, oneWay: true},
		feedKind{name: "uni_websocket", transport: overOneWayWebSocket, oneWay: true},
		feedKind{name: "uni_grpc", transport: overUniStream, oneWay: true},
	)
}

// newFeedClients returns n clients of a node, whose kinds take turns from a number on.
func newFeedClients(turn, n int, node *process, want map[string]*expectation) []*feedClient {
	var clients []*feedClient
	kinds := feedKinds()
	for i := range n {
		kind := kinds[(turn+i)%len(kinds)]
		address := node.public
		if kind.tcp {
			address = node.tcp
		}
		clients = append(clients, newFeedClient(fmt.Sprintf("client %d, %s", i, kind.name), address, kind.transport, want))
	}
	return clients
}

// overConn uses a transport of package clientconn.
func overConn(transport, form string) feedTransport {
	scheme := "http"
	if transport == "tcp" {
		scheme = "tcp"
	}
	return func(ctx context.Context, c *feedClient) error {
		f := newFeed(c)
		conn, err := clientconn.Dial(ctx, &clientconn.Options{
			URL: scheme + "://" + c.address, Transport: transport, Protocol: form, Commands: f.first(), DialContext: c.dial,
		})
		if err != nil {
			return err
		}
		defer conn.Close()
		f.send = func(ctx context.Context, cmd *protocol.Command) error { return conn.Send(ctx, cmd) }
		for {
			c.wait(ctx)
			if err := conn.Receive(ctx, &f.reply); err != nil {
				return err
			}
			if err := f.handle(ctx); err != nil {
				return err
			}
			c.noted()
		}
	}
}

// overConsume uses the calls Consume and Send, by a protocol of connect-go.
func overConsume(o connect.ClientOption) feedTransport {
	return func(ctx context.Context, c *feedClient) error {
		f := newFeed(c)
		client := clientv1connect.NewClientClient(c.http, "http://"+c.address, o)
		first := f.first()
		stream, err := client.Consume(ctx, connect.NewRequest(generatedCommand(first[0])))
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		var session *clientv1.ConnectResult
		send := func(ctx context.Context, commands ...*protocol.Command) error {
			batch := &clientv1.SendCommandsRequest{Session: session.GetSession(), Node: session.GetNode()}
			for _, cmd := range commands {
				batch.Commands = append(batch.Commands, generatedCommand(cmd))
			}
			_, err := client.Send(ctx, connect.NewRequest(batch))
			return err
		}
		f.send = func(ctx context.Context, cmd *protocol.Command) error { return send(ctx, cmd) }
		for stream.Receive() {
			if r := stream.Msg().GetConnect(); r != nil {
				session = r
				if err := send(ctx, first[1:]...); err != nil {
					return err
				}
			}
			message, err := proto.Marshal(stream.Msg())
			if err == nil {
				err = protobuf.DecodeReply(message, &f.reply)
			}
			if err != nil {
				return violated("%v: %v", stream.Msg(), err)
			}
			if err := f.handle(ctx); err != nil {
				return err
			}
			c.noted()
		}
		return errors.Join(stream.Err(), io.ErrUnexpectedEOF)
	}
}

// generatedCommand returns a command as generated code has it.
func generatedCommand(cmd *protocol.Command) *clientv1.Command {
	var out clientv1.Command
	if err := proto.Unmarshal(unframed(protobuf.AppendCommand(nil, cmd)), &out); err != nil {
		panic(err) // two encodings of one message differ
	}
	return &out
}

// unframed returns a message without the length before it.
func unframed(frame []byte) []byte {
	message, _ := protowire.ConsumeBytes(frame)
	return message
}

// connectAlone returns the connect request of a client that only listens, in JSON.
func (c *feedClient) connectAlone() []byte {
	cmd := protocol.Command{Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{Subs: c.checker.requests()}}
	line := bytes.TrimSpace(clientjson.AppendCommand(nil, &cmd))
	return bytes.TrimSuffix(bytes.TrimPrefix(line, []byte(`{"connect":`)), []byte("}"))
}

// overLines uses uni_http_stream.
func overLines(ctx context.Context, c *feedClient) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/connection/uni_http_stream", bytes.NewReader(c.connectAlone()))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(resp.Body)
		return violated("%s: %s", resp.Status, why)
	}
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := c.event(line); err != nil {
			return err
		}
		c.noted()
	}
}

// overOneWayWebSocket uses uni_websocket.
func overOneWayWebSocket(ctx context.Context, c *feedClient) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+c.address+"/connection/uni_websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(feedLine)
	if err := conn.Write(ctx, websocket.MessageText, c.connectAlone()); err != nil {
		return err
	}
	return c.messages(ctx, conn, c.event)
}

// overUniStream uses the one-way service of gRPC.
func overUniStream(ctx context.Context, c *feedClient) error {
	dial := func(ctx context.Context, address string) (net.Conn, error) { return c.dial(ctx, "tcp", address) }
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(feedLine)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	request := &unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{}}
	for name, r := range c.checker.requests() {
		request.Subs[name] = &unistream.SubscribeRequest{Recover: r.Recover, Epoch: r.Position.Epoch, Offset: r.Position.Offset}
	}
	stream, err := unistream.NewCentrifugoUniStreamClient(conn).Consume(ctx, request)
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		var p protocol.Push
		raw, err := proto.Marshal(message) // with the fields that this form of the service does not have
		if err == nil {
			err = protobuf.DecodePush(raw, &p)
		}
		if err != nil {
			return violated("%v: %v", message, err)
		}
		if err := c.push(&p); err != nil {
			return err
		}
		c.noted()
	}
}
