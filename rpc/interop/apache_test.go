package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	ours "github.com/sluice-push/sluice/rpc/thrift"
)

// function is a function of a processor, as Thrift's compiler generates it.
type function struct {
	name   string
	oneWay bool
	call   func(ctx context.Context, in string) (string, error)
}

// Process implements thrift.TProcessorFunction.
func (f function) Process(ctx context.Context, sequence int32, in, out thrift.TProtocol) (bool, thrift.TException) {
	fail := func(code int32, err error) (bool, thrift.TException) {
		x := thrift.NewTApplicationException(code, err.Error())
		if e := errors.Join(out.WriteMessageBegin(ctx, f.name, thrift.EXCEPTION, sequence), x.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx)); e != nil {
			return false, thrift.WrapTException(e)
		}
		return true, x
	}
	args := text{id: 1}
	if err := errors.Join(args.Read(ctx, in), in.ReadMessageEnd(ctx)); err != nil {
		return fail(thrift.PROTOCOL_ERROR, err)
	}
	value, err := f.call(ctx, args.value)
	switch {
	case f.oneWay:
		return true, nil
	case err != nil:
		return fail(thrift.INTERNAL_ERROR, err)
	}
	result := text{value: value}
	err = errors.Join(out.WriteMessageBegin(ctx, f.name, thrift.REPLY, sequence), result.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx))
	return err == nil, thrift.WrapTException(err)
}

// processor is a processor, as Thrift's compiler generates it.
type processor map[string]thrift.TProcessorFunction

func (p processor) ProcessorMap() map[string]thrift.TProcessorFunction         { return p }
func (p processor) AddToProcessorMap(name string, f thrift.TProcessorFunction) { p[name] = f }
func (p processor) Process(ctx context.Context, in, out thrift.TProtocol) (bool, thrift.TException) {
	name, _, sequence, err := in.ReadMessageBegin(ctx)
	if err != nil {
		return false, thrift.WrapTException(err)
	}
	f, ok := p[name]
	if !ok {
		x := thrift.NewTApplicationException(thrift.UNKNOWN_METHOD, "unknown function "+name)
		err := errors.Join(in.Skip(ctx, thrift.STRUCT), in.ReadMessageEnd(ctx), out.WriteMessageBegin(ctx, name, thrift.EXCEPTION, sequence),
			x.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx))
		return err == nil, x
	}
	return f.Process(ctx, sequence, in, out)
}

// service returns a processor with a method that echoes, one that fails, one that tells a header, and one that is one-way.
func service(told chan<- string) processor {
	return processor{
		"Echo": function{"Echo", false, func(_ context.Context, in string) (string, error) { return in, nil }},
		"Fail": function{"Fail", false, func(_ context.Context, in string) (string, error) { return "", errors.New(in) }},
		"Tell": function{"Tell", true, func(_ context.Context, in string) (string, error) { told <- in; return "", nil }},
		"Header": function{"Header", false, func(ctx context.Context, in string) (string, error) {
			value, _ := thrift.GetHeader(ctx, in)
			return value, nil
		}},
	}
}

// ask calls a method by a generated client.
func ask(c thrift.TClient, method, in string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound)
	defer cancel()
	ctx = thrift.SetWriteHeaderList(thrift.SetHeader(ctx, "key", "value"), []string{"key"})
	out := text{}
	_, err := c.Call(ctx, method, &text{1, in}, &out)
	return out.value, err
}

// checkService calls all methods of a service.
func checkService(t *testing.T, c thrift.TClient, told <-chan string, headers bool) {
	t.Helper()
	for i := range 20 {
		if got, err := ask(c, "Echo", fmt.Sprint("call ", i)); err != nil || got != fmt.Sprint("call ", i) {
			t.Fatalf("call %d: %q, %v", i, got, err)
		}
	}
	var e thrift.TApplicationException
	if _, err := ask(c, "Fail", "as you wish"); !errors.As(err, &e) || e.TypeId() != thrift.INTERNAL_ERROR || e.Error() != "as you wish" {
		t.Errorf("a method that fails gives %v", err)
	}
	if _, err := ask(c, "Nothing", "a"); !errors.As(err, &e) || e.TypeId() != thrift.UNKNOWN_METHOD {
		t.Errorf("an unknown method gives %v", err)
	}
	if _, err := c.Call(context.Background(), "Tell", &text{1, "news"}, nil); err != nil {
		t.Error(err)
	}
	if got := testwait.Receive(t, told); got != "news" {
		t.Error(got)
	}
	if got, err := ask(c, "Header", "key"); err != nil || (got == "value") != headers {
		t.Errorf("a header is %q, %v", got, err)
	}
}

// Clients of Apache's library call a server of package rpc with a generated processor, in all their dialects on one port.
func TestApacheCallsOurServer(t *testing.T) {
	told := make(chan string, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(nil)
	ours.Handle(srv, service(told))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			socket := thrift.NewTSocketConf(l.Addr().String(), &thrift.TConfiguration{ConnectTimeout: time.Minute, SocketTimeout: time.Minute})
			if err := socket.Open(); err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			p := d.protocol(socket)
			checkService(t, thrift.NewTStandardClient(p, p), told, d.d.Framing == frame.THeader)
		})
	}
}

// A generated client over a connection of package rpc calls Apache's server, which answers in order, and one of package rpc, with many calls at a time.
func TestWeCallServers(t *testing.T) {
	told := make(chan string, 1)
	socket, err := thrift.NewTServerSocketTimeout("127.0.0.1:0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Listen(); err != nil {
		t.Fatal(err)
	}
	apache := thrift.NewTSimpleServer4(service(told), socket, thrift.NewTHeaderTransportFactoryConf(nil, nil), thrift.NewTHeaderProtocolFactoryConf(nil))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(nil)
	ours.Handle(srv, service(told))
	served := make(chan error, 2)
	go func() { served <- apache.Serve() }()
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_, _ = apache.Stop(), srv.Close()
		<-served
		<-served
	}()
	for name, address := range map[string]string{"Apache": socket.Addr().String(), "ours": l.Addr().String()} {
		for _, framing := range []frame.Framing{frame.THeader, frame.TTHeader, frame.Framed, frame.Unframed} {
			for _, form := range []rpc.Form{ours.Binary, ours.Compact} {
				if framing == frame.TTHeader && (name == "Apache" || form == ours.Compact) {
					continue // it does not know TTHeader
				}
				t.Run(fmt.Sprint(name, " ", framing, " ", form.Protocol()), func(t *testing.T) {
					o := &rpc.ConnOptions{Form: form, Framing: framing}
					if framing == frame.THeader {
						o.Compress, o.CompressFrom = frame.Zlib, 500
					}
					conn, err := rpc.Dial(t.Context(), "tcp", address, o)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = conn.Close() }()
					c := ours.NewClient(conn)
					checkService(t, c, told, framing.HasHeader())
					var group sync.WaitGroup
					for i := range 20 {
						group.Go(func() {
							for j := range 20 {
								in := fmt.Sprintf("%d %0*d", i, 1+j*100, j)
								if got, err := ask(c, "Echo", in); err != nil || got != in {
									t.Errorf("%q is answered %q, %v", in, got, err)
								}
							}
						})
					}
					group.Wait()
				})
			}
		}
	}
}
