package clientconn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// grpcStream is a call of Connect, on a connection of its own.
type grpcStream struct {
	conn   *grpc.ClientConn
	call   grpc.ClientStream
	cancel context.CancelFunc
	frame  []byte // what was received last
}

func dialGRPC(ctx context.Context, base *url.URL, _ form, first []byte, dial dialFunc) (stream, error) {
	safe := insecure.NewCredentials()
	if base.Scheme == "https" {
		safe = credentials.NewTLS(&tls.Config{ServerName: base.Hostname()})
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(safe), grpc.WithDefaultCallOptions(
		grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(maxMessage))}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }))
	}
	conn, err := grpc.NewClient("passthrough:///"+hostPort(base), options...)
	if err != nil {
		return nil, err
	}
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	s := &grpcStream{conn: conn, cancel: cancel}
	s.call, err = conn.NewStream(long, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, clientv1.Client_Connect_FullMethodName)
	if err == nil {
		err = s.Send(ctx, first)
	}
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s does not answer: %w", base, s.reason(err))
	}
	return s, nil
}

// hostPort returns the address of a URL, with the port of its scheme if it has none.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return u.Host + map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
}

// reason returns why a call failed: a *Refused if the node has said so.
func (*grpcStream) reason(err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return &Refused{Reason: s.Message()}
	}
	return errors.New(s.Message())
}

// Send sends each command of a frame as a message.
func (s *grpcStream) Send(_ context.Context, frame []byte) error {
	for {
		message, rest, err := protobuf.Next(frame)
		if err != nil || message == nil {
			return err
		}
		if err := s.call.SendMsg(&message); err != nil {
			return fmt.Errorf("commands could not be sent: %w", err)
		}
		frame = rest
	}
}

// Receive returns the next message as a frame. When ctx ends, so does the call.
func (s *grpcStream) Receive(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	var message []byte
	if err := s.call.RecvMsg(&message); err != nil {
		return nil, fmt.Errorf("connection lost: %w", s.reason(err))
	}
	s.frame = append(binary.AppendUvarint(s.frame[:0], uint64(len(message))), message...)
	return s.frame, nil
}

func (s *grpcStream) Close() {
	s.cancel()
	_ = s.conn.Close()
}

// bytesCodec passes messages as they are on the wire, in a *[]byte.
type bytesCodec struct{}

func (bytesCodec) Name() string { return proto.Name }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	message := v.(*[]byte) //nolint:forcetypeassert // all are
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize() //nolint:forcetypeassert // all are
	return nil
}
