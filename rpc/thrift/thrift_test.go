package thrift_test

import (
	"context"
	"errors"
	"net"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"
	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/rpc/thrift"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is a struct with a string: field 1 of arguments, field 0 of results.
type text struct {
	id    int16
	value string
}

// Write implements TStruct.
func (s *text) Write(ctx context.Context, p apache.TProtocol) error {
	return errors.Join(p.WriteStructBegin(ctx, "text"), p.WriteFieldBegin(ctx, "value", apache.STRING, s.id), p.WriteString(ctx, s.value),
		p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
}

// Read implements TStruct.
func (s *text) Read(ctx context.Context, p apache.TProtocol) error {
	_, err := p.ReadStructBegin(ctx)
	for err == nil {
		var kind apache.TType
		if _, kind, _, err = p.ReadFieldBegin(ctx); err != nil || kind == apache.STOP {
			return err
		}
		if s.value, err = p.ReadString(ctx); err == nil {
			err = p.ReadFieldEnd(ctx)
		}
	}
	return err
}

// function is what a processor calls.
type function func(ctx context.Context, in *text, out apache.TProtocol) error

// Process implements TProcessorFunction.
func (f function) Process(ctx context.Context, _ int32, in, out apache.TProtocol) (bool, apache.TException) {
	args := text{id: 1}
	err := errors.Join(args.Read(ctx, in), in.ReadMessageEnd(ctx))
	if err == nil {
		err = f(ctx, &args, out)
	}
	return err == nil, apache.WrapTException(err)
}

type processor map[string]apache.TProcessorFunction

func (p processor) ProcessorMap() map[string]apache.TProcessorFunction         { return p }
func (p processor) AddToProcessorMap(name string, f apache.TProcessorFunction) { p[name] = f }
func (processor) Process(context.Context, apache.TProtocol, apache.TProtocol) (bool, apache.TException) {
	return false, apache.NewTApplicationException(apache.UNKNOWN_METHOD, "not used")
}

// write writes an answer as generated code does.
func write(ctx context.Context, out apache.TProtocol, kind apache.TMessageType, s apache.TStruct) error {
	return errors.Join(out.WriteMessageBegin(ctx, "any", kind, 7), s.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx))
}

// serve returns a server with methods of a generated processor. told gets what Tell is called with.
func serve(told chan<- string) *rpc.Server {
	srv := rpc.NewServer(nil)
	thrift.Handle(srv, processor{
		"Echo": function(func(ctx context.Context, in *text, out apache.TProtocol) error {
			return write(ctx, out, apache.REPLY, &text{0, in.value})
		}),
		"Fail": function(func(ctx context.Context, in *text, out apache.TProtocol) error {
			return write(ctx, out, apache.EXCEPTION, apache.NewTApplicationException(apache.MISSING_RESULT, in.value))
		}),
		"Break": function(func(ctx context.Context, in *text, out apache.TProtocol) error {
			return write(ctx, out, apache.EXCEPTION, broken{})
		}),
		"Tell": function(func(_ context.Context, in *text, _ apache.TProtocol) error {
			told <- in.value
			return nil
		}),
		"Nothing": function(func(context.Context, *text, apache.TProtocol) error { return errors.New("no answer was written") }),
		"Header": function(func(ctx context.Context, in *text, out apache.TProtocol) error {
			value, _ := apache.GetHeader(ctx, in.value)
			rpc.From(ctx).SetMetadata("back", value)
			return write(ctx, out, apache.REPLY, &text{0, value})
		}),
	})
	return srv
}

func TestProcessor(t *testing.T) {
	told := make(chan string, 1)
	srv := serve(told)
	defer func() { _ = srv.Close() }()
	for _, o := range []rpc.ConnOptions{{Form: thrift.Binary}, {Form: rpc.JSON}, {Form: thrift.Compact, Framing: frame.THeader}} {
		here, there := net.Pipe()
		if err := srv.ServeConn(there); err != nil {
			t.Fatal(err)
		}
		conn, err := rpc.NewConn(t.Context(), here, &o)
		if err != nil {
			t.Fatal(err)
		}
		c, ctx := thrift.NewClient(conn), testwait.Context(t)
		ctx = apache.SetWriteHeaderList(apache.SetHeader(ctx, "key", "value"), []string{"key", "none"})
		call := func(method, in string) (string, apache.ResponseMeta, error) {
			out := text{}
			meta, err := c.Call(ctx, method, &text{1, in}, &out)
			return out.value, meta, err
		}
		if got, _, err := call("Echo", "abc"); got != "abc" || err != nil {
			t.Error(got, err)
		}
		if got, meta, err := call("Header", "key"); got != "value" || meta.Headers["back"] != "value" || err != nil {
			t.Error(got, meta, err)
		}
		for method, want := range map[string]struct {
			code int32
			text string
		}{
			"Fail":    {apache.MISSING_RESULT, "abc"},
			"Nothing": {int32(rpc.Unknown), "no answer was written"},
			"Missing": {apache.UNKNOWN_METHOD, `there is no method "Missing"`},
			"Break":   {int32(rpc.Internal), "the exception of Break: offset 0: malformed: the field has the type 255"},
		} {
			_, _, err := call(method, "abc")
			var x apache.TApplicationException
			var e *rpc.Error
			if !errors.As(err, &x) || !errors.As(err, &e) || x.TypeId() != want.code || int32(e.Code) != want.code || method != "Break" && x.Error() != want.text {
				t.Errorf("%s: %v", method, err)
			}
		}
		if _, err := c.Call(ctx, "Tell", &text{1, "news"}, nil); err != nil {
			t.Error(err)
		}
		if got := testwait.Receive(t, told); got != "news" {
			t.Error(got)
		}
		r := &rpc.Request{Method: "Tell", Form: thrift.Binary}
		r.Method = "Echo"
		for _, bad := range []any{7, nil} {
			if err := conn.Do(ctx, r, bad, nil); rpc.CodeOf(err) != rpc.BadMessage {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if err := conn.Do(ctx, r, &text{1, "a"}, new(int)); rpc.CodeOf(err) != rpc.BadMessage {
			t.Error(err)
		}
		_ = conn.Close()
	}
}

// broken is an exception that is none.
type broken struct{}

// Write implements TStruct.
func (broken) Write(ctx context.Context, p apache.TProtocol) error { return p.WriteByte(ctx, -1) }

// Read implements TStruct.
func (broken) Read(context.Context, apache.TProtocol) error { return nil }
