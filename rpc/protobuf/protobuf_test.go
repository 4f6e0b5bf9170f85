package protobuf_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/protobuf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForm(t *testing.T) {
	srv := rpc.NewServer(nil)
	protobuf.Handle(srv, "Upper", func(_ context.Context, in *wrapperspb.StringValue) (*wrapperspb.BytesValue, error) {
		if in.GetValue() == "" {
			return nil, rpc.Errorf(20_000, "nothing to do")
		}
		return wrapperspb.Bytes([]byte(strings.ToUpper(in.GetValue()))), nil
	})
	here, there := net.Pipe()
	if err := srv.ServeConn(there); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Form: protobuf.Form})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testwait.Context(t)
	var out wrapperspb.BytesValue
	if err := c.Call(ctx, "Upper", wrapperspb.String("abc"), &out); err != nil || string(out.GetValue()) != "ABC" {
		t.Errorf("%q, %v", out.GetValue(), err)
	}
	if err := c.Call(ctx, "Upper", wrapperspb.String(""), nil); rpc.CodeOf(err) != 20_000 || !strings.Contains(err.Error(), "nothing to do") {
		t.Error(err)
	}
	if err := c.Call(ctx, "Upper", wrapperspb.String("abc"), nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []any{7, nil} {
		if err := c.Call(ctx, "Upper", bad, nil); rpc.CodeOf(err) != rpc.BadMessage {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := c.Call(ctx, "Upper", wrapperspb.String("a"), new(int)); rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
	if err := c.Do(ctx, &rpc.Request{Method: "Upper", Form: rpc.Raw}, []byte("a"), nil); rpc.CodeOf(err) != rpc.UnknownMethod {
		t.Error(err)
	}
	if err := protobuf.Form.Parse([]byte{0xFF}, &out); err == nil {
		t.Error("bytes that are no message are one")
	}
}

func TestStream(t *testing.T) {
	srv := rpc.NewServer(nil)
	protobuf.HandleStream(srv, "Letters", func(_ context.Context, in *wrapperspb.StringValue, send func(*wrapperspb.StringValue) error) error {
		for _, letter := range in.GetValue() {
			if err := send(wrapperspb.String(string(letter))); err != nil {
				return err
			}
		}
		return nil
	})
	here, there := net.Pipe()
	if err := srv.ServeConn(there); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Form: protobuf.Form, StreamMessages: 2})
	if err != nil {
		t.Fatal(err)
	}
	const letters = "the letters of a text"
	s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Letters"}, wrapperspb.String(letters))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for {
		var out wrapperspb.StringValue
		if err = s.Receive(&out); err != nil {
			break
		}
		got += out.GetValue()
	}
	if !errors.Is(err, io.EOF) || got != letters {
		t.Errorf("%q, %v", got, err)
	}
	s, err = c.Stream(testwait.Context(t), &rpc.Request{Method: "Letters"}, wrapperspb.String(letters))
	if err == nil {
		err = s.Receive(new(int))
	}
	if rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
}
