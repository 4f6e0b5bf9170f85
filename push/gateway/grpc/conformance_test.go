package grpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

func TestConformance(t *testing.T) {
	for name, method := range map[string]struct {
		way  gateway.Way
		path string
	}{
		"Connect": {gateway.TwoWay, clientv1.Client_Connect_FullMethodName},
		"Consume": {gateway.Emulated, clientv1.Client_Consume_FullMethodName},
		"OneWay":  {gateway.OneWay, unistream.CentrifugoUniStream_Consume_FullMethodName},
	} {
		t.Run(name, func(t *testing.T) {
			carriertest.Run(t, carriertest.Harness{
				Transport: func(g *gateway.Gateway) gateway.Transport { return grpc.New(g) },
				Form:      carriertest.Protobuf,
				Way:       method.way,
				Serve:     serve,

				EndsWithStatus: true,
				Queues:         3, // the outbox, grpc-go's, and the batch of which grpc-go has written a part
				Dial: func(_ context.Context, target carriertest.Target) (carriertest.Conn, error) {
					return newCaller(method.way, method.path, target)
				},
			})
		})
	}
}

// serve serves the clients that come to a listener.
func serve(_ *gateway.Gateway, t gateway.Transport, ln net.Listener) (stop func()) {
	var serving sync.WaitGroup
	serving.Go(func() { _ = t.(*grpc.Transport).Serve(ln) })
	return func() {
		_ = ln.Close()
		serving.Wait()
	}
}

// caller is a client of the suite: one call, and the connections for it and for its calls of Send.
type caller struct {
	way            gateway.Way
	path           string
	stream         *googlegrpc.ClientConn
	commands       *googlegrpc.ClientConn
	ctx            context.Context
	cancel         context.CancelFunc
	call           googlegrpc.ClientStream // nil until the first Send
	got            []byte                  // what Receive has returned
	mu             sync.Mutex              // guards what follows
	session, where string                  // of an emulated client
}

func newCaller(way gateway.Way, path string, t carriertest.Target) (*caller, error) {
	dial := func(open func(ctx context.Context, network, address string) (net.Conn, error)) (*googlegrpc.ClientConn, error) {
		return googlegrpc.NewClient("passthrough:node", googlegrpc.WithTransportCredentials(insecure.NewCredentials()),
			googlegrpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return open(ctx, "tcp", address) }),
			googlegrpc.WithStaticStreamWindowSize(64<<10), googlegrpc.WithStaticConnWindowSize(64<<10),
			googlegrpc.WithDefaultCallOptions(googlegrpc.ForceCodecV2(bytesCodec{}), googlegrpc.MaxCallRecvMsgSize(16<<20)))
	}
	c := &caller{way: way, path: path}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var err, err2 error
	c.stream, err = dial(t.Dial)
	c.commands, err2 = dial(t.DialCommands)
	return c, errors.Join(err, err2)
}

// Send implements carriertest.Conn. Each command is a message.
func (c *caller) Send(frame []byte) error {
	messages := [][]byte{frame}
	if c.way != gateway.OneWay {
		messages = messages[:0]
		for message, rest, err := protobuf.Next(frame); ; message, rest, err = protobuf.Next(rest) {
			if err != nil {
				return errors.ErrUnsupported // messages have no length before them
			}
			if message == nil {
				break
			}
			messages = append(messages, message)
		}
	}
	if c.way == gateway.Emulated && c.call == nil && len(messages) > 1 {
		return errors.ErrUnsupported // the request has one command
	}
	if c.call == nil {
		call, err := c.stream.NewStream(c.ctx, &googlegrpc.StreamDesc{ServerStreams: true, ClientStreams: c.way == gateway.TwoWay}, c.path)
		if err != nil {
			return err
		}
		c.call = call
		if c.way != gateway.TwoWay {
			return errors.Join(call.SendMsg(messages[0]), call.CloseSend())
		}
	}
	if c.way == gateway.Emulated {
		return c.post(messages)
	}
	for _, message := range messages {
		if err := c.call.SendMsg(message); errors.Is(err, io.EOF) {
			return nil // the server has ended the call: Receive says why
		} else if err != nil {
			return err
		}
	}
	return nil
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
	var nothing []byte
	return c.commands.Invoke(c.ctx, clientv1.Client_Send_FullMethodName, request, &nothing)
}

// Receive implements carriertest.Conn.
func (c *caller) Receive() ([]byte, error) {
	var message []byte
	if err := c.call.RecvMsg(&message); err != nil {
		return nil, c.endOf(err)
	}
	c.got = protowire.AppendBytes(c.got[:0], message)
	var r protocol.Reply
	if c.way == gateway.Emulated && protobuf.DecodeReply(message, &r) == nil && r.Connect.Session != "" {
		c.mu.Lock()
		c.session, c.where = r.Connect.Session, r.Connect.Node
		c.mu.Unlock()
	}
	return c.got, nil
}

// endOf returns the error of a call that has ended. The trailer has the code of a disconnect; a refused call has none.
func (c *caller) endOf(err error) error {
	trailer := c.call.Trailer().Get("sluice-disconnect-code")
	code, _ := strconv.ParseUint(strings.Join(trailer, ","), 10, 16)
	if code == 0 {
		return err
	}
	return push.Disconnect{Code: uint16(code), Reason: status.Convert(err).Message()}
}

// Close implements carriertest.Conn.
func (c *caller) Close() {
	c.cancel()
	_, _ = c.stream.Close(), c.commands.Close()
}

// bytesCodec passes messages as bytes.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
