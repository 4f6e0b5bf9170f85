package rpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is the argument and the result of most methods.
type text struct {
	Text string
}

// place is a server.
type place struct {
	t       testing.TB
	server  *rpc.Server
	address string
	served  chan error
}

// newPlace starts a server with the method Echo, which ends with the test.
func newPlace(t testing.TB, o *rpc.Options) *place {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, server: rpc.NewServer(o), address: ln.Addr().String(), served: make(chan error, 1)}
	rpc.Handle(p.server, "Echo", func(_ context.Context, in *text) (*text, error) { return in, nil })
	go func() { p.served <- p.server.Serve(ln) }()
	t.Cleanup(func() {
		testwait.Return(t, func() { _ = p.server.Close() })
		_ = testwait.Receive(t, p.served)
	})
	return p
}

// dial returns a connection to the server, which ends with the test.
func (p *place) dial(o *rpc.ConnOptions) *rpc.Conn {
	p.t.Helper()
	c, err := rpc.Dial(testwait.Context(p.t), "tcp", p.address, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { testwait.Return(p.t, func() { _ = c.Close() }) })
	return c
}

// ask calls a method with a text.
func ask(t testwait.Test, c *rpc.Conn, method, in string) (string, error) {
	var out text
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound)
	defer cancel()
	err := c.Call(ctx, method, &text{in}, &out)
	return out.Text, err
}

// wantEcho checks that the connection works.
func wantEcho(t testwait.Test, c *rpc.Conn, in string) {
	t.Helper()
	if got, err := ask(t, c, "Echo", in); err != nil || got != in {
		t.Errorf("%q is answered %q, %v", in, got, err)
	}
}

// blocked is a method whose calls wait.
type blocked struct {
	began   chan *rpc.Call
	release chan struct{}
}

// block adds a method that waits until its release, or until its context is done.
func (p *place) block(name string) *blocked {
	b := &blocked{began: make(chan *rpc.Call, 1000), release: make(chan struct{})}
	rpc.Handle(p.server, name, func(ctx context.Context, in *text) (*text, error) {
		b.began <- rpc.From(ctx)
		select {
		case <-b.release:
			return in, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(testwait.Bound):
			return nil, context.DeadlineExceeded
		}
	})
	return b
}

// start makes a call in a goroutine and returns where its error will be.
func start(c *rpc.Conn, ctx context.Context, method, in string) <-chan error { //nolint:revive // c comes first, as in the other functions
	done := make(chan error, 1)
	go func() {
		var out text
		err := c.Call(ctx, method, &text{in}, &out)
		if err == nil && out.Text != in {
			err = rpc.Errorf(rpc.BadMessage, "%q is answered %q", in, out.Text)
		}
		done <- err
	}()
	return done
}
