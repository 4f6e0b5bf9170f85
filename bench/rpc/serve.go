package main

import (
	"context"
	"io"
	"net"
	netrpc "net/rpc"
	"slices"
	"sync"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/server"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// The servers. Those called sluice are package rpc. It handles each call in a goroutine, but inline in sluice-inline. Connections have a goroutine in
// sluice-goroutine, and are on event loops in the others. The client of sluice-pool makes one call at a time on each connection.
const (
	sluice    = "sluice"
	inline    = "sluice-inline"
	goroutine = "sluice-goroutine"
	pooled    = "sluice-pool"
	netRPC    = "net/rpc"
	grpcGo    = "grpc"
	theader   = "thrift"
)

func serverNames() []string {
	return []string{load.Limit, sluice, inline, goroutine, pooled, netRPC, grpcGo, theader}
}

// fits reports whether a server is measured with a number of connections. Thrift's clients make one call at a time on each, so they need many.
func fits(name string, conns int) bool {
	switch name {
	case grpcGo:
		return conns <= 4
	case theader, pooled:
		return conns > 4
	}
	return true
}

// hasSlow reports whether a server can be asked for a slow method and a fast one on one connection.
func hasSlow(name string) bool { return slices.Contains([]string{sluice, netRPC, grpcGo}, name) }

// slowness is how long the slow method takes.
const slowness = 20 * time.Millisecond

// process is the process of a server, or of a client.
func process(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "client" {
		return client(args[1:], stdin, stdout)
	}
	return server.NewProcess().Run(args, stdin, stdout, func(name string, ln net.Listener) (*server.Served, error) {
		switch name {
		case sluice, pooled:
			return serveSluice(ln, session.EngineAuto, false), nil
		case inline:
			return serveSluice(ln, session.EngineAuto, true), nil
		case goroutine:
			return serveSluice(ln, session.EngineGoroutine, false), nil
		case netRPC:
			return serveNetRPC(ln)
		case grpcGo:
			return serveGRPC(ln), nil
		case theader:
			return serveThrift(ln)
		}
		return nil, server.Unknown(name)
	})
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // a server has printed it
	return port
}

// serveSluice starts a server of package rpc.
func serveSluice(ln net.Listener, engine session.Engine, inline bool) *server.Served {
	srv := rpc.NewServer(&rpc.Options{Session: &session.Options{Engine: engine}})
	echo := func(_ context.Context, c *rpc.Call, _ []byte) ([]byte, error) { return c.Body(), nil }
	srv.Handle("Echo", rpc.Method{Protocol: frame.Bare, Func: echo, Inline: inline})
	srv.Handle("Slow", rpc.Method{Protocol: frame.Bare, Func: func(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		time.Sleep(slowness)
		return echo(ctx, c, dst)
	}})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	return &server.Served{Conns: func() int { return srv.Stats().Conns }, Close: func() {
		_ = srv.Close()
		<-done
	}}
}

// echoes are the methods for net/rpc.
type echoes struct{}

// Echo is a method of net/rpc.
func (echoes) Echo(in []byte, out *[]byte) error {
	*out = in
	return nil
}

// Slow is a method of net/rpc.
func (echoes) Slow(in []byte, out *[]byte) error {
	time.Sleep(slowness)
	*out = in
	return nil
}

// serveNetRPC starts a server of net/rpc.
func serveNetRPC(ln net.Listener) (*server.Served, error) {
	srv := netrpc.NewServer()
	if err := srv.RegisterName("Echo", echoes{}); err != nil {
		return nil, err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { srv.ServeConn(conn) }) // until its client is gone
		}
	})
	return &server.Served{Conns: func() int { return 0 }, Close: func() {
		_ = ln.Close()
		serving.Wait()
	}}, nil
}

// serveGRPC starts a server of grpc-go. Its description is what the generator would make of the two methods.
func serveGRPC(ln net.Listener) *server.Served {
	method := func(name string, wait time.Duration) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			time.Sleep(wait)
			return in, nil
		}}
	}
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{method("Echo", 0), method("Slow", slowness)},
	}, echoes{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	return &server.Served{Conns: func() int { return 0 }, Close: func() {
		srv.Stop()
		<-done
	}}
}

// serveThrift starts a server of Apache Thrift.
func serveThrift(ln net.Listener) (*server.Served, error) {
	conf := new(apache.TConfiguration)
	srv := apache.NewTSimpleServer4(processor{}, &thriftListener{Listener: ln}, apache.NewTHeaderTransportFactoryConf(nil, conf), apache.NewTHeaderProtocolFactoryConf(conf))
	done := make(chan error, 1)
	go func() { done <- srv.Serve() }()
	return &server.Served{Conns: func() int { return 0 }, Close: func() {
		_ = srv.Stop()
		<-done
	}}, nil
}

// thriftListener is a TServerTransport over a listener that exists already.
type thriftListener struct {
	net.Listener

	closing sync.Once
}

func (*thriftListener) Listen() error { return nil }

// Accept implements TServerTransport.
func (l *thriftListener) Accept() (apache.TTransport, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return apache.NewTSocketFromConnConf(conn, nil), nil
}

// Interrupt implements TServerTransport.
func (l *thriftListener) Interrupt() (err error) {
	l.closing.Do(func() { err = l.Listener.Close() })
	return err
}

// Close implements TServerTransport.
func (l *thriftListener) Close() error { return l.Interrupt() }
