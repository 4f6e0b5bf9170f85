// Package thrift has the forms of Apache Thrift for package rpc, so that code which the Thrift compiler generates runs on it.
//
// A server takes a generated processor, and serves it in both protocols, in all framings, beside methods in other forms:
//
//	srv := rpc.NewServer(nil)
//	thrift.Handle(srv, echo.NewEchoProcessor(handler))
//
// A generated client takes a connection:
//
//	conn, err := rpc.Dial(ctx, "tcp", address, &rpc.ConnOptions{Form: thrift.Binary, Framing: frame.THeader})
//	client := echo.NewEchoClient(thrift.NewClient(conn))
//
// A [Client] may be used by many goroutines at once. A generated client may not, since it notes the headers of its last answer without a lock
// (LastResponseMeta_): each goroutine takes its own, over the same Client. Each call has its own context. Headers of THeader and TTHeader are those of
// the functions SetHeader and GetHeader of Thrift's library for Go.
package thrift

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// The forms. Values are structs as Thrift's compiler generates them (TStruct): of the arguments of a method, or of its result.
var (
	Binary  rpc.Form = form{frame.Binary}  // the binary protocol
	Compact rpc.Form = form{frame.Compact} // the compact protocol
)

type form struct{ protocol frame.Protocol }

// Protocol implements rpc.Form.
func (f form) Protocol() frame.Protocol { return f.protocol }

// Append implements rpc.Form.
func (f form) Append(dst []byte, value any) ([]byte, error) {
	s, ok := value.(apache.TStruct)
	if !ok {
		return dst, fmt.Errorf("thrift: %T is no struct of Thrift", value)
	}
	memory := &apache.TMemoryBuffer{Buffer: bytes.NewBuffer(dst)}
	p := over(memory, f.protocol)
	err := s.Write(context.Background(), p)
	if err == nil {
		err = p.Flush(context.Background())
	}
	return memory.Bytes(), err
}

// Parse implements rpc.Form.
func (f form) Parse(body []byte, value any) error {
	if value == nil {
		return nil
	}
	s, ok := value.(apache.TStruct)
	if !ok {
		return fmt.Errorf("thrift: %T is no struct of Thrift", value)
	}
	return s.Read(context.Background(), over(&apache.TMemoryBuffer{Buffer: bytes.NewBuffer(body)}, f.protocol))
}

// over returns a protocol of Thrift's library that reads and writes memory.
func over(memory *apache.TMemoryBuffer, p frame.Protocol) apache.TProtocol {
	if p == frame.Compact {
		return apache.NewTCompactProtocolConf(memory, nil)
	}
	return apache.NewTBinaryProtocolConf(memory, nil)
}

// Handle has a server handle all methods of a generated processor, in both protocols. The context of a handler is that of the call; the headers of the
// call are in it, as Thrift's servers have it. Handle panics where [rpc.Server.Handle] does.
func Handle(srv *rpc.Server, processor apache.TProcessor) {
	for name, function := range processor.ProcessorMap() {
		for _, p := range []frame.Protocol{frame.Binary, frame.Compact} {
			srv.Handle(name, rpc.Method{Protocol: p, Func: handler(function)})
		}
	}
}

// handler returns what calls a function of a processor.
func handler(function apache.TProcessorFunction) rpc.Func {
	return func(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		var keys []string
		for _, h := range c.AllMetadata() {
			ctx = apache.SetHeader(ctx, h.Key, h.Value)
			keys = append(keys, h.Key)
		}
		ctx = apache.SetReadHeaderList(ctx, keys)
		in := over(&apache.TMemoryBuffer{Buffer: bytes.NewBuffer(c.Body())}, c.Protocol())
		memory := &apache.TMemoryBuffer{Buffer: bytes.NewBuffer(dst)}
		out := &answer{TProtocol: over(memory, c.Protocol())}
		_, err := function.Process(ctx, 0, in, out)
		switch {
		case out.kind == apache.REPLY:
			return memory.Bytes(), nil
		case out.kind == apache.EXCEPTION:
			x, err := frame.ParseException(c.Protocol(), memory.Bytes()[len(dst):])
			if err != nil {
				return dst, rpc.Errorf(rpc.Internal, "the exception of %s: %w", c.Method(), err)
			}
			return dst, x
		case err != nil:
			return dst, err
		}
		c.SetOneWay() // nothing was written: Thrift's client for Go sends one-way calls as others
		return dst, nil
	}
}

// answer is a protocol for what a processor writes. The message around the struct is not written, because package frame does that.
type answer struct {
	apache.TProtocol

	kind apache.TMessageType // 0 until it is known
}

// WriteMessageBegin implements TProtocol.
func (a *answer) WriteMessageBegin(_ context.Context, _ string, kind apache.TMessageType, _ int32) error {
	a.kind = kind
	return nil
}

// WriteMessageEnd implements TProtocol.
func (*answer) WriteMessageEnd(context.Context) error { return nil }

// Client makes the calls of generated clients over a connection. Its methods may be called concurrently.
type Client struct {
	conn *rpc.Conn
	form rpc.Form
}

// NewClient returns a TClient for any number of generated clients. The connection's form should be [Binary] or [Compact]; with any other, calls are in
// the binary protocol.
func NewClient(conn *rpc.Conn) *Client {
	f := conn.Form()
	if f != Compact {
		f = Binary
	}
	return &Client{conn, f}
}

// Call implements TClient. The headers that ctx has by SetHeader and SetWriteHeaderList are sent. An error of the server is a TApplicationException with
// its code and its text; the *[rpc.Error] is in it, for errors.As.
func (c *Client) Call(ctx context.Context, method string, args, result apache.TStruct) (apache.ResponseMeta, error) {
	r := &rpc.Request{Method: method, Form: c.form, OneWay: result == nil}
	for _, key := range apache.GetWriteHeaderList(ctx) {
		if value, ok := apache.GetHeader(ctx, key); ok {
			r.Metadata = append(r.Metadata, rpc.Pair{Key: key, Value: value})
		}
	}
	var out any
	if result != nil {
		out = result
	}
	err := c.conn.Do(ctx, r, args, out)
	var meta apache.ResponseMeta
	for _, h := range r.AllReplyMetadata() {
		if meta.Headers == nil {
			meta.Headers = apache.THeaderMap{}
		}
		meta.Headers[h.Key] = h.Value
	}
	var e *rpc.Error
	if errors.As(err, &e) && e.Remote {
		err = &exception{apache.NewTApplicationException(int32(e.Code), e.Message), e}
	}
	return meta, err
}

// exception is an error of the server, as generated clients expect it.
type exception struct {
	apache.TApplicationException

	cause *rpc.Error
}

// Unwrap returns the error of package rpc.
func (e *exception) Unwrap() error { return e.cause }
