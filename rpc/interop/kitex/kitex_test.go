//go:build !race && linux && (amd64 || arm64)

package kitex_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/client/genericclient"
	"github.com/cloudwego/kitex/pkg/generic"
	"github.com/cloudwego/kitex/pkg/kerrors"
	"github.com/cloudwego/kitex/pkg/klog"
	"github.com/cloudwego/kitex/pkg/transmeta"
	"github.com/cloudwego/kitex/server"
	"github.com/cloudwego/kitex/server/genericserver"
	"github.com/cloudwego/kitex/transport"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/rpc/thrift"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// bound is how long a step may take.
const bound = time.Minute

// message returns a message of the binary protocol with a string as its only field.
func message(kind frame.Kind, method string, field byte, value string) []byte {
	f := frame.Frame{Dialect: frame.Dialect{Framing: frame.Unframed, Protocol: frame.Binary}, Kind: kind, Sequence: 1}
	f.SetMethod(method)
	out, err := f.AppendEncode(nil, structOf(field, value))
	if err != nil {
		panic(err)
	}
	return out
}

// structOf returns a struct of the binary protocol with a string as its only field.
func structOf(field byte, value string) []byte {
	n := len(value)
	return append(append([]byte{11, 0, field, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, value...), 0)
}

// valueOf returns the string in such a struct.
func valueOf(s []byte) string {
	if len(s) < 8 {
		return ""
	}
	return string(s[7 : len(s)-1])
}

// serve runs a server of package rpc with methods in the binary protocol.
func serve(t *testing.T) (srv *rpc.Server, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv = rpc.NewServer(nil)
	srv.Handle("Echo", rpc.Method{Protocol: frame.Binary, Func: func(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		in := valueOf(c.Body())
		switch {
		case in == "deadline":
			at, ok := ctx.Deadline()
			in = fmt.Sprint(ok && time.Until(at) <= 20*time.Second && time.Until(at) > time.Second)
		case strings.HasPrefix(in, "wait"):
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		case in == "fail":
			return dst, rpc.Errorf(5_000, "as you wish")
		}
		return append(dst, structOf(0, in)...), nil
	}})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return srv, l.Addr().String()
}

// Clients of Kitex, with TTHeader and with frames without header, one call at a time and many on a connection, call a server of package rpc.
func TestKitexCallsUs(t *testing.T) {
	klog.SetLevel(klog.LevelFatal)
	for name, tt := range map[string]struct {
		options []client.Option
		headers bool
	}{
		"TTHeader":            {[]client.Option{client.WithTransportProtocol(transport.TTHeader)}, true},
		"TTHeader and length": {[]client.Option{client.WithTransportProtocol(transport.TTHeaderFramed)}, true},
		"TTHeader, shared":    {[]client.Option{client.WithTransportProtocol(transport.TTHeader), client.WithMuxConnection(2)}, true},
		"framed":              {[]client.Option{client.WithTransportProtocol(transport.Framed)}, false},
		"plain":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, address := serve(t)
			c, err := genericclient.NewClient("echo", generic.BinaryThriftGeneric(), append(tt.options,
				client.WithHostPorts(address), client.WithRPCTimeout(20*time.Second), client.WithMetaHandler(transmeta.ClientTTHeaderHandler))...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					for j := range 25 {
						if got, err := call(c, fmt.Sprint(i, "/", j)); err != nil || got != fmt.Sprint(i, "/", j) {
							t.Errorf("%d/%d: %q, %v", i, j, got, err)
							return
						}
					}
				})
			}
			group.Wait()
			if got, err := call(c, "deadline"); got != fmt.Sprint(tt.headers) {
				t.Errorf("a deadline has arrived: %s, %v", got, err)
			}
			if _, err := call(c, "fail"); err == nil || !errors.Is(err, kerrors.ErrRemoteOrNetwork) || !strings.Contains(err.Error(), "as you wish") {
				t.Error(err)
			}
			if got, err := call(c, "after an error"); err != nil || got != "after an error" {
				t.Error(got, err)
			}
		})
	}
}

func call(c genericclient.Client, text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	answer, err := c.GenericCall(ctx, "Echo", message(frame.Call, "Echo", 1, text))
	if err != nil {
		return "", err
	}
	in, _ := answer.([]byte)
	codec := frame.New(nil)
	body, n, err := codec.Decode(in)
	if err != nil || n != len(in) {
		return "", fmt.Errorf("%x has %d bytes of message: %w", in, n, err)
	}
	return valueOf(body), nil
}

// Shutdown of a server of package rpc loses no call of Kitex's clients that share connections: they understand that it will close.
func TestShutdownWithKitex(t *testing.T) {
	klog.SetLevel(klog.LevelFatal)
	old, address := serve(t)
	c, err := genericclient.NewClient("echo", generic.BinaryThriftGeneric(), client.WithTransportProtocol(transport.TTHeader), client.WithMuxConnection(1),
		client.WithHostPorts(address), client.WithRPCTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := call(c, "a"); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if got, err := call(c, fmt.Sprint("wait ", i)); err != nil || got != fmt.Sprint("wait ", i) {
				t.Error(got, err)
			}
		})
	}
	testwait.True(t, "most calls are under way", func() bool { return old.Stats().Calls > 40 })
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := old.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	group.Wait()
}

// handle handles the calls of a server of Kitex.
func handle(_ context.Context, _, _ string, request any) (any, error) {
	in, _ := request.([]byte)
	if len(in) > 0 && in[0] == 0x80 { // the whole message
		body, _, err := frame.New(nil).Decode(in)
		if err != nil {
			return nil, err
		}
		in = body
	}
	switch text := valueOf(in); {
	case text == "fail":
		return nil, errors.New("as you wish")
	case strings.HasPrefix(text, "wait"):
		<-time.After(time.Duration(len(text)) * time.Millisecond)
		fallthrough
	default:
		return structOf(0, text), nil
	}
}

// text is the struct of arguments and results.
type text struct {
	id    int16
	value string
}

// Write implements TStruct.
func (s *text) Write(ctx context.Context, p apache.TProtocol) error {
	return errors.Join(p.WriteFieldBegin(ctx, "value", apache.STRING, s.id), p.WriteString(ctx, s.value), p.WriteFieldStop(ctx))
}

// Read implements TStruct.
func (s *text) Read(ctx context.Context, p apache.TProtocol) error {
	for {
		_, kind, _, err := p.ReadFieldBegin(ctx)
		if err != nil || kind == apache.STOP {
			return err
		}
		if s.value, err = p.ReadString(ctx); err != nil {
			return err
		}
	}
}

// A connection of package rpc calls servers of Kitex, many calls at a time. A server of Kitex 0.16.1 whose service is generic cannot encode its
// announcement that it will close a shared connection, so that it is not tested.
func TestWeCallKitex(t *testing.T) {
	klog.SetLevel(klog.LevelFatal)
	for name, options := range map[string][]server.Option{
		"one call at a time": nil,
		"shared":             {server.WithMuxTransport()},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := genericserver.NewUnknownServiceOrMethodServer(&genericserver.UnknownServiceOrMethodHandler{DefaultHandler: handle}, append(options,
				server.WithListener(l), server.WithExitSignal(func() <-chan error { return nil }), server.WithExitWaitTime(time.Second))...)
			ran := make(chan error, 1)
			go func() { ran <- srv.Run() }()
			conn, err := rpc.Dial(t.Context(), "tcp", l.Addr().String(), &rpc.ConnOptions{Form: thrift.Binary})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			ask := func(in string) (string, error) {
				out := text{}
				err := conn.Call(ctx, "Echo", &text{1, in}, &out)
				return out.value, err
			}
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					for j := range 10 {
						if got, err := ask(fmt.Sprint("wait ", i, j)); err != nil || got != fmt.Sprint("wait ", i, j) {
							t.Errorf("%d, %d: %q, %v", i, j, got, err)
						}
					}
				})
			}
			group.Wait()
			if _, err := ask("fail"); err == nil || rpc.Refused(err) || !strings.Contains(err.Error(), "as you wish") {
				t.Error(err)
			}
			if err := conn.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := srv.Stop(); err != nil {
				t.Error(err)
			}
			<-ran
		})
	}
}
