// Package protobuf has the Protobuf form for package rpc: bodies are messages, in the envelope that Kitex has for its "Protobuf" payload codec.
//
//	srv := rpc.NewServer(nil)
//	protobuf.Handle(srv, "Echo", func(ctx context.Context, in *echo.Request) (*echo.Response, error) { … })
//
//	conn, err := rpc.Dial(ctx, "tcp", address, &rpc.ConnOptions{Form: protobuf.Form})
//	var out echo.Response
//	err = conn.Call(ctx, "Echo", &echo.Request{Message: "hi"}, &out)
package protobuf

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// Form is the form. Values are Protobuf messages.
var Form rpc.Form = form{}

type form struct{}

// Protocol implements rpc.Form.
func (form) Protocol() frame.Protocol { return frame.Protobuf }

// Append implements rpc.Form.
func (form) Append(dst []byte, value any) ([]byte, error) {
	m, ok := value.(proto.Message)
	if !ok {
		return dst, fmt.Errorf("protobuf: %T is no Protobuf message", value)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Parse implements rpc.Form.
func (form) Parse(body []byte, value any) error {
	if value == nil {
		return nil
	}
	m, ok := value.(proto.Message)
	if !ok {
		return fmt.Errorf("protobuf: %T is no Protobuf message", value)
	}
	return proto.Unmarshal(body, m)
}

// Handle has a server handle calls of a method whose arguments and results are Protobuf messages.
func Handle[In, Out any, InP message[In], OutP message[Out]](srv *rpc.Server, name string, handler func(ctx context.Context, in *In) (*Out, error)) {
	srv.Handle(name, rpc.MethodOf(Form, handler))
}

// HandleStream has a server handle calls of a method with a stream, whose argument and messages are Protobuf messages. See [rpc.StreamOf].
func HandleStream[In, Out any, InP message[In], OutP message[Out]](
	srv *rpc.Server, name string, handler func(ctx context.Context, in *In, send func(out *Out) error) error,
) {
	srv.Handle(name, rpc.StreamOf(Form, handler))
}

// message is a pointer to a generated struct.
type message[M any] interface {
	*M
	proto.Message
}
