package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// text is the struct of the arguments of Echo, and of its result: a single string. Code that thrift generates does the same with more words.
type text struct {
	id    int16
	value string
}

// Write implements thrift.TStruct.
func (s *text) Write(ctx context.Context, p thrift.TProtocol) error {
	return errors.Join(p.WriteStructBegin(ctx, "text"), p.WriteFieldBegin(ctx, "value", thrift.STRING, s.id), p.WriteString(ctx, s.value),
		p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
}

// Read implements thrift.TStruct.
func (s *text) Read(ctx context.Context, p thrift.TProtocol) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case kind == thrift.STOP:
			return p.ReadStructEnd(ctx)
		case id == s.id && kind == thrift.STRING:
			s.value, err = p.ReadString(ctx)
		default:
			err = p.Skip(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
}

// serve runs a server of package session that answers the call Echo with its own body and every other with an exception, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := session.NewServer(nil, &session.Handler{
		Open: func(s *session.Session) error {
			c := frame.New(nil)
			s.SetCodec(c)
			s.SetValue(c)
			return nil
		},
		Message: func(s *session.Session, body []byte) {
			call, reply := s.Value().(*frame.Codec).Frame(), new(frame.Frame)
			if string(call.Method) == "Echo" {
				reply.Answer(call, frame.Reply)
			} else {
				reply.Answer(call, frame.Exception)
				e := frame.ApplicationException{Code: frame.UnknownMethod, Message: "unknown method " + string(call.Method)}
				body = e.AppendBody(nil, call.Dialect.Protocol)
			}
			if reply.Dialect.Framing.HasHeader() {
				reply.Add("from", "session")
			}
			if err := s.SendAs(reply, body); err != nil {
				t.Error(err)
			}
		},
	}, nil)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	return l.Addr().String()
}

// Clients of Apache's library call a server of package session, in all their dialects on one port.
func TestApacheCallsUs(t *testing.T) {
	addr := serve(t)
	ctx := context.Background()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			socket := thrift.NewTSocketConf(addr, &thrift.TConfiguration{ConnectTimeout: time.Minute, SocketTimeout: time.Minute})
			if err := socket.Open(); err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			p := d.protocol(socket)
			client := thrift.NewTStandardClient(p, p)
			for i := range 50 {
				args, result := text{id: 1, value: fmt.Sprint("call ", i)}, text{id: 1}
				if _, err := client.Call(ctx, "Echo", &args, &result); err != nil || result != args {
					t.Fatalf("call %d: %q, %v", i, result.value, err)
				}
				if h, ok := p.(*thrift.THeaderProtocol); ok && h.GetReadHeaders()["from"] != "session" {
					t.Fatalf("call %d: headers %v", i, h.GetReadHeaders())
				}
			}
			_, err := client.Call(ctx, "Nothing", &text{id: 1}, &text{id: 1})
			var e thrift.TApplicationException
			if !errors.As(err, &e) || e.TypeId() != thrift.UNKNOWN_METHOD || e.Error() != "unknown method Nothing" {
				t.Errorf("an unknown method gives %v", err)
			}
		})
	}
}

// apacheServer is a processor for Apache's server: Echo, as generated code has it.
type apacheServer struct{}

func (apacheServer) Process(ctx context.Context, in, out thrift.TProtocol) (bool, thrift.TException) {
	name, _, sequence, err := in.ReadMessageBegin(ctx)
	if err != nil {
		return false, thrift.WrapTException(err)
	}
	args := text{id: 1}
	if err := errors.Join(args.Read(ctx, in), in.ReadMessageEnd(ctx)); err != nil {
		return false, thrift.WrapTException(err)
	}
	if name != "Echo" {
		e := thrift.NewTApplicationException(thrift.UNKNOWN_METHOD, "unknown function "+name)
		err := errors.Join(out.WriteMessageBegin(ctx, name, thrift.EXCEPTION, sequence), e.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx))
		return err == nil, e
	}
	result := text{id: 0, value: args.value}
	err = errors.Join(out.WriteMessageBegin(ctx, name, thrift.REPLY, sequence), result.Write(ctx, out), out.WriteMessageEnd(ctx), out.Flush(ctx))
	return err == nil, thrift.WrapTException(err)
}

func (apacheServer) ProcessorMap() map[string]thrift.TProcessorFunction      { return nil }
func (apacheServer) AddToProcessorMap(_ string, _ thrift.TProcessorFunction) {}

// A client with package frame calls Apache's server for THeader, which takes all dialects, one connection each.
func TestWeCallApache(t *testing.T) {
	ctx := context.Background()
	socket, err := thrift.NewTServerSocketTimeout("127.0.0.1:0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Listen(); err != nil {
		t.Fatal(err)
	}
	srv := thrift.NewTSimpleServer4(apacheServer{}, socket, thrift.NewTHeaderTransportFactoryConf(nil, nil), thrift.NewTHeaderProtocolFactoryConf(nil))
	served := make(chan error, 1)
	go func() { served <- srv.Serve() }()
	defer func() {
		_ = srv.Stop()
		<-served
	}()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", socket.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			c := frame.New(nil)
			for i := range int32(20) {
				call := frame.Frame{Dialect: d.d, Kind: frame.Call, Sequence: 100 + i, HeaderSequence: 200 + i}
				method := "Echo"
				if i%5 == 4 {
					method = "Nothing"
				}
				call.SetMethod(method)
				if d.d.Framing == frame.THeader {
					call.Add("trace", "abc")
				}
				if d.zlib {
					call.Transforms = []frame.Transform{frame.Zlib}
				}
				args := memory(nil)
				if err := (&text{id: 1, value: "hello"}).Write(ctx, inMemory(args, d.d.Protocol)); err != nil {
					t.Fatal(err)
				}
				wire, err := call.AppendEncode(nil, args.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write(wire); err != nil {
					t.Fatal(err)
				}
				checkAnswer(t, c, conn, &call)
			}
		})
	}
}

// checkAnswer reads the answer to a call of Echo or of something else.
func checkAnswer(t *testing.T, c *frame.Codec, conn net.Conn, call *frame.Frame) {
	t.Helper()
	var in []byte
	for buf := make([]byte, 7); ; { // so that every frame comes in many pieces
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, buf[:n]...)
		body, n, err := c.Decode(in)
		if err != nil {
			t.Fatal(err)
		}
		if n <= 0 {
			continue
		}
		f := c.Frame()
		if n != len(in) || f.Dialect != call.Dialect || f.Sequence != call.Sequence || string(f.Method) != string(call.Method) ||
			len(f.Transforms) != len(call.Transforms) {
			t.Fatalf("%+v\nis the answer to\n%+v", f, call)
		}
		if string(f.Method) != "Echo" {
			e, err := frame.ParseException(f.Dialect.Protocol, body)
			if f.Kind != frame.Exception || err != nil || e.Code != frame.UnknownMethod || e.Message != "unknown function Nothing" {
				t.Fatalf("%v: %v, %v", f.Kind, e, err)
			}
			return
		}
		result := text{id: 0}
		if err := result.Read(context.Background(), inMemory(memory(body), f.Dialect.Protocol)); f.Kind != frame.Reply || err != nil || result.value != "hello" {
			t.Fatalf("%v: %q, %v", f.Kind, result.value, err)
		}
		return
	}
}
