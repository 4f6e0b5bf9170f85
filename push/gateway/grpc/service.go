package grpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/grpc/rawstream"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// mostOthers is how many calls of health checks and reflection may be open at a time.
const mostOthers = 256

// register registers the services of clients, whose messages stay bytes, and those of health checks and reflection.
func (t *Transport) register() {
	for name, serve := range map[string]func(grpc.ServerStream) error{
		clientv1.Client_Connect_FullMethodName:               t.serveConnect,
		clientv1.Client_Consume_FullMethodName:               t.serveConsume,
		unistream.CentrifugoUniStream_Consume_FullMethodName: t.serveOneWay,
	} {
		t.clients[name] = serve
	}
	clients := clientv1.Client_ServiceDesc
	clients.HandlerType = (*any)(nil)
	clients.Methods = []grpc.MethodDesc{{MethodName: "Send", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return t.serveSend(ctx, decode)
	}}}
	oneWay := unistream.CentrifugoUniStream_ServiceDesc
	oneWay.HandlerType = (*any)(nil)
	for _, desc := range []*grpc.ServiceDesc{&clients, &oneWay} {
		streams := make([]grpc.StreamDesc, len(desc.Streams))
		for i, s := range desc.Streams {
			serve := t.clients["/"+desc.ServiceName+"/"+s.StreamName]
			s.Handler = func(_ any, stream grpc.ServerStream) error { return serve(stream) }
			streams[i] = s
		}
		desc.Streams = streams
		t.server.RegisterService(desc, struct{}{})
		t.health.SetServingStatus(desc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(t.server, t.health)
	reflection.Register(t.server)
}

// serveConnect serves a client that sends commands in its call. A client that has nothing more to send goes on listening.
func (t *Transport) serveConnect(stream grpc.ServerStream) error {
	return t.serve(stream, t.twoWay, func(c *call) error {
		c.Begin(nil)
		c.receive(0, func(m *rawstream.Message) { c.Message(m.Frame) })
		return c.pump()
	})
}

// serveConsume serves a client that sends its first command in its call, and more by Send.
func (t *Transport) serveConsume(stream grpc.ServerStream) error {
	return t.serve(stream, t.emulated, func(c *call) error {
		c.Begin(nil)
		c.receive(1, func(m *rawstream.Message) { c.Enqueue(m.Frame) }) // there is room in an empty inbox
		return c.pump()
	})
}

// serveOneWay serves a client that only listens.
func (t *Transport) serveOneWay(stream grpc.ServerStream) error {
	return t.serve(stream, t.oneWay, func(c *call) error {
		g := t.gateway
		request, err := c.receiveFirst()
		if err != nil {
			g.RequestRefused()
			return err
		}
		connect, err := clientrpc.DecodeConnect(request)
		if err != nil {
			g.RequestRefused()
			return status.Error(codes.InvalidArgument, "connect request: "+err.Error())
		}
		limited, cancel := context.WithTimeout(stream.Context(), g.Options().CommandTimeout)
		defer cancel()
		told, err := c.Connect(limited, connect, func(string, push.Position) {})
		if err != nil {
			return c.refused(err)
		}
		c.Begin(func(dst []byte) []byte {
			return t.oneWay.Encoder().AppendPush(dst, &protocol.Push{Kind: protocol.PushConnect, Connect: told})
		})
		return c.pump()
	})
}

// refused returns the status of a client whose connect request was refused.
func (c *call) refused(err error) error {
	g := c.transport.gateway
	g.ClientRefused()
	if c.stream.Context().Err() != nil {
		return c.broken() // one side is gone, which may well be the error
	}
	s, unexpected := clientrpc.OfRefused(err)
	if unexpected {
		g.Options().Logger.Error("client failed to connect", "transport", Name, "error", err)
	}
	return endOf(c.stream, s)
}

// serveSend serves a call with commands of a client of Consume.
func (t *Transport) serveSend(ctx context.Context, decode func(any) error) (answer any, err error) {
	defer func() {
		if t.recovered(recover()) {
			err = errorOf(clientrpc.Broken)
		}
	}()
	var m rawstream.Message
	if err := decode(&m); err != nil {
		t.gateway.RequestRefused()
		return nil, err
	}
	t.in.Add(uint64(len(m.Frame)))
	if s := clientrpc.Send(ctx, t.gateway, m.Body()); s.Code != codes.OK {
		if ms := s.Pushback(); ms != "" {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(clientrpc.PushbackTrailer, ms)) // fails outside of a call only
		}
		return nil, errorOf(s)
	}
	return rawstream.Empty{}, nil
}

// cancelKey is the key of the function that cancels the context of a call.
type cancelKey struct{}

// tap gives each call a context that can be canceled, which ends its sends and receives, and bounds the time of calls that are no streams.
func (t *Transport) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	var cancel context.CancelFunc
	if _, client := t.clients[info.FullMethodName]; client || isOtherStream(info.FullMethodName) {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, t.gateway.Options().CommandTimeout)
	}
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// isOtherStream reports whether a method of health checks or reflection is a stream.
func isOtherStream(method string) bool {
	switch method {
	case healthv1.Health_Watch_FullMethodName, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return false
}

// cancelOf returns what cancels the context of a call.
func cancelOf(ctx context.Context) context.CancelFunc {
	cancel, _ := ctx.Value(cancelKey{}).(context.CancelFunc) // tap has put it there
	return cancel
}

// otherStream is a call of health checks or reflection, whose messages are bounded as those of clients are.
type otherStream struct {
	grpc.ServerStream
	sender rawstream.Sender
	codec  rawstream.Codec
}

// SendMsg implements grpc.ServerStream.
func (s *otherStream) SendMsg(m any) error {
	data, err := s.codec.Marshal(m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	defer data.Free()
	_, err = s.sender.Send(protowire.AppendBytes(nil, data.Materialize()))
	return err
}
