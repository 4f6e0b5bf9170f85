package rpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
)

// A refusal is one of the server that sends it. If a handler gets one from a server behind it and passes it on, wrapped or not, its caller sees the code
// and the text, and no refusal.
func TestRefused(t *testing.T) {
	behind := newPlace(t, nil)
	rpc.Handle(behind.server, "Busy", func(ctx context.Context, _ *text) (*text, error) { return nil, rpc.From(ctx).Refuse("come back later") })
	there := behind.dial(nil)
	gone := behind.dial(nil)
	_ = gone.Close()
	p := newPlace(t, nil)
	pass := func(name string, call func(ctx context.Context, in *text) error) {
		rpc.Handle(p.server, name, func(ctx context.Context, in *text) (*text, error) { return nil, call(ctx, in) })
	}
	pass("Passes", func(ctx context.Context, in *text) error { return there.Call(ctx, "Busy", in, nil) })
	pass("Wraps", func(ctx context.Context, in *text) error {
		return fmt.Errorf("ask the bank: %w", there.Call(ctx, "Busy", in, nil))
	})
	pass("Gone", func(ctx context.Context, in *text) error { return gone.Call(ctx, "Busy", in, nil) })
	pass("Claims", func(context.Context, *text) error { return rpc.Errorf(rpc.Overloaded, "after some work") })
	rpc.HandleStream(p.server, "Stream", func(ctx context.Context, _ *text, _ func(*text) error) error {
		return rpc.From(ctx).Refuse("no streams today")
	})
	c := p.dial(nil)
	for _, tt := range []struct {
		conn    *rpc.Conn
		method  string
		code    rpc.Code
		text    string
		refused bool
	}{
		{there, "Busy", rpc.Overloaded, "come back later", true},
		{gone, "Busy", rpc.Unavailable, "", true},
		{c, "Passes", rpc.Overloaded, "come back later", false},
		{c, "Wraps", rpc.Overloaded, "ask the bank: come back later", false},
		{c, "Gone", rpc.Unavailable, "", false},
		{c, "Claims", rpc.Overloaded, "after some work", false},
	} {
		_, err := ask(t, tt.conn, tt.method, "a")
		if rpc.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || rpc.Refused(err) != tt.refused {
			t.Errorf("%s: %v, refused: %t, want code %d, %q, %t", tt.method, err, rpc.Refused(err), tt.code, tt.text, tt.refused)
		}
	}
	stream, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Stream"}, &text{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Receive(nil); err == io.EOF || !rpc.Refused(err) { //nolint:errorlint // as it is
		t.Errorf("the stream: %v", err)
	}
}

// What the server itself refuses is refused, whichever bound it is, and the metadata of the answer do not show how that is said.
func TestRefusedByServer(t *testing.T) {
	p := newPlace(t, &rpc.Options{MaxCalls: 1})
	slow := p.block("Slow")
	c := p.dial(nil)
	done := start(c, testwait.Context(t), "Slow", "a")
	testwait.Receive(t, slow.began)
	r := &rpc.Request{Method: "Echo"}
	err := c.Do(testwait.Context(t), r, &text{"a"}, nil)
	if rpc.CodeOf(err) != rpc.Overloaded || !rpc.Refused(err) || len(r.AllReplyMetadata()) != 0 {
		t.Errorf("%v, metadata %v", err, r.AllReplyMetadata())
	}
	close(slow.release)
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
}
