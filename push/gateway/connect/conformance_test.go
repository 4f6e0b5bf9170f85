package connect_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	connectclients "github.com/sluice-push/sluice/push/gateway/connect"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

func TestConformance(t *testing.T) {
	methods := []struct {
		name string
		way  gateway.Way
	}{{"Connect", gateway.TwoWay}, {"Consume", gateway.Emulated}, {"OneWay", gateway.OneWay}}
	for _, v := range variants {
		for _, m := range methods {
			if (m.way == gateway.TwoWay) != v.http2 || v.text {
				continue // over HTTP/1.1 it is refused, see TestBothWays; the others use less of HTTP/2; text is the same, in base64
			}
			t.Run(v.name+"/"+m.name, func(t *testing.T) {
				carriertest.Run(t, carriertest.Harness{
					Transport: connectclients.New,
					Form:      carriertest.Protobuf,
					Way:       m.way,

					EndsWithStatus: true,
					Dial: func(_ context.Context, target carriertest.Target) (carriertest.Conn, error) {
						return newCaller(m.way, v.http2, v.json, v.options, target), nil
					},
				})
			})
		}
	}
}

// caller is a client of the suite: one call, and its calls of Send. The suite speaks Protobuf; messages in JSON are converted.
type caller struct {
	way              gateway.Way
	json             bool // on the wire
	stream, commands http.Transport
	options          []connect.ClientOption
	ctx              context.Context
	cancel           context.CancelFunc

	both   *connect.BidiStreamForClient[[]byte, []byte] // of a two-way client, from the first Send on
	listen *connect.ServerStreamForClient[[]byte]       // of others
	got    []byte                                       // what Receive has returned

	mu             sync.Mutex // guards what follows
	session, where string     // of an emulated client
}

func newCaller(way gateway.Way, http2, json bool, o []connect.ClientOption, t carriertest.Target) *caller {
	c := &caller{way: way, json: json, options: o}
	for tr, dial := range map[*http.Transport]func(ctx context.Context, network, address string) (net.Conn, error){
		&c.stream: t.Dial, &c.commands: t.DialCommands,
	} {
		var p http.Protocols
		p.SetHTTP1(!http2)
		p.SetUnencryptedHTTP2(http2)
		tr.DialContext, tr.Protocols, tr.HTTP2 = dial, &p, &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		tr.DisableCompression = true
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// client returns a client of a method, whose messages are of the given types.
func (c *caller) client(tr *http.Transport, path string, request, response proto.Message) *connect.Client[[]byte, []byte] {
	options := append(slices.Clone(c.options), connect.WithCodec(bytesCodec{request, response, c.json}))
	return connect.NewClient[[]byte, []byte](&http.Client{Transport: tr}, "http://node"+path, options...)
}

// Send implements carriertest.Conn. Each command is a message.
func (c *caller) Send(frame []byte) error {
	if c.way == gateway.OneWay {
		return c.open(unistreamconnect.CentrifugoUniStreamConsumeProcedure, frame, new(clientv1.ConnectRequest), new(clientv1.Push))
	}
	var messages [][]byte
	for message, rest, err := protobuf.Next(frame); message != nil || err != nil; message, rest, err = protobuf.Next(rest) {
		if err != nil || c.json && !inJSON(message) {
			return errors.ErrUnsupported // messages have no length before them
		}
		messages = append(messages, message)
	}
	switch {
	case c.way == gateway.Emulated && c.listen != nil:
		return c.post(messages)
	case c.way == gateway.Emulated && len(messages) > 1:
		return errors.ErrUnsupported // the request has one command
	case c.way == gateway.Emulated:
		return c.open(clientv1connect.ClientConsumeProcedure, messages[0], new(clientv1.Command), new(clientv1.Reply))
	case c.both == nil:
		c.both = c.client(&c.stream, clientv1connect.ClientConnectProcedure, new(clientv1.Command), new(clientv1.Reply)).CallBidiStream(c.ctx)
	}
	for _, m := range messages {
		if err := c.both.Send(&m); errors.Is(err, io.EOF) {
			return nil // the server has ended the call: Receive says why
		} else if err != nil {
			return err
		}
	}
	return nil
}

// inJSON reports whether a command has a JSON form.
func inJSON(command []byte) bool {
	var m clientv1.Command
	return proto.Unmarshal(command, &m) == nil && len(m.ProtoReflect().GetUnknown()) == 0
}

// open sends the request of a client that listens.
func (c *caller) open(path string, first []byte, request, response proto.Message) (err error) {
	if c.json && proto.Unmarshal(first, proto.Clone(request)) != nil {
		return errors.ErrUnsupported
	}
	c.listen, err = c.client(&c.stream, path, request, response).CallServerStream(c.ctx, connect.NewRequest(&first))
	return err
}

// post sends commands beside the call.
func (c *caller) post(commands [][]byte) error {
	c.mu.Lock()
	request := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), c.session)
	request = protowire.AppendString(protowire.AppendTag(request, 2, protowire.BytesType), c.where)
	c.mu.Unlock()
	for _, command := range commands {
		request = protowire.AppendBytes(protowire.AppendTag(request, 3, protowire.BytesType), command)
	}
	method := c.client(&c.commands, clientv1connect.ClientSendProcedure, new(clientv1.SendCommandsRequest), new(clientv1.SendCommandsResponse))
	_, err := method.CallUnary(c.ctx, connect.NewRequest(&request))
	return err
}

// Receive implements carriertest.Conn.
func (c *caller) Receive() ([]byte, error) {
	var message *[]byte
	var err error
	if c.both != nil {
		message, err = c.both.Receive()
	} else if c.listen.Receive() {
		message = c.listen.Msg()
	} else if err = c.listen.Err(); err == nil {
		err = io.EOF
	}
	if err != nil {
		return nil, endOf(err)
	}
	c.got = protowire.AppendBytes(c.got[:0], *message)
	var r protocol.Reply
	if c.way == gateway.Emulated && protobuf.DecodeReply(*message, &r) == nil && r.Connect.Session != "" {
		c.mu.Lock()
		c.session, c.where = r.Connect.Session, r.Connect.Node
		c.mu.Unlock()
	}
	return c.got, nil
}

// endOf returns the error of a call that has ended. The trailer has the code of a disconnect; a refused call has none.
func endOf(err error) error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	code, _ := strconv.ParseUint(e.Meta().Get("sluice-disconnect-code"), 10, 16)
	if code == 0 {
		return err
	}
	return push.Disconnect{Code: uint16(code), Reason: e.Message()}
}

// Close implements carriertest.Conn.
func (c *caller) Close() {
	c.cancel()
	if c.both != nil {
		_ = c.both.CloseResponse()
	}
	if c.listen != nil {
		_ = c.listen.Close()
	}
	c.stream.CloseIdleConnections()
	c.commands.CloseIdleConnections()
}

// bytesCodec passes messages as bytes of Protobuf, which it converts from and to JSON if that is on the wire.
type bytesCodec struct {
	request, response proto.Message // of the types of the method
	json              bool
}

func (c bytesCodec) Name() string {
	if c.json {
		return "json"
	}
	return "proto"
}

func (c bytesCodec) Marshal(v any) ([]byte, error) {
	data := *v.(*[]byte)
	if !c.json {
		return data, nil
	}
	m := proto.Clone(c.request)
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

func (c bytesCodec) Unmarshal(data []byte, v any) (err error) {
	out := v.(*[]byte)
	if !c.json {
		*out = bytes.Clone(data)
		return nil
	}
	m := proto.Clone(c.response)
	if err = protojson.Unmarshal(data, m); err == nil {
		*out, err = proto.Marshal(m)
	}
	return err
}
