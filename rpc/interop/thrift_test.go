package interop_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/sluice-push/sluice/rpc/frame"
)

// dialect is a way in which Apache's library talks.
type dialect struct {
	name     string
	d        frame.Dialect
	zlib     bool
	protocol func(thrift.TTransport) thrift.TProtocol // on top of a socket
}

// dialects returns the dialects of Apache's library for Go.
func dialects() []dialect {
	header := func(id thrift.THeaderProtocolID, transforms ...thrift.THeaderTransformID) func(thrift.TTransport) thrift.TProtocol {
		return func(t thrift.TTransport) thrift.TProtocol {
			return thrift.NewTHeaderProtocolConf(t, &thrift.TConfiguration{THeaderProtocolID: &id, THeaderTransforms: transforms})
		}
	}
	binary := func(t thrift.TTransport) thrift.TProtocol { return thrift.NewTBinaryProtocolConf(t, nil) }
	compact := func(t thrift.TTransport) thrift.TProtocol { return thrift.NewTCompactProtocolConf(t, nil) }
	framed := func(inner func(thrift.TTransport) thrift.TProtocol) func(thrift.TTransport) thrift.TProtocol {
		return func(t thrift.TTransport) thrift.TProtocol { return inner(thrift.NewTFramedTransportConf(t, nil)) }
	}
	buffered := func(inner func(thrift.TTransport) thrift.TProtocol) func(thrift.TTransport) thrift.TProtocol {
		return func(t thrift.TTransport) thrift.TProtocol { return inner(thrift.NewTBufferedTransport(t, 4096)) }
	}
	return []dialect{
		{"THeader binary", frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary}, false, header(thrift.THeaderProtocolBinary)},
		{"THeader compact", frame.Dialect{Framing: frame.THeader, Protocol: frame.Compact}, false, header(thrift.THeaderProtocolCompact)},
		{
			"THeader binary zlib",
			frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary},
			true,
			header(thrift.THeaderProtocolBinary, thrift.TransformZlib),
		},
		{"framed binary", frame.Dialect{Framing: frame.Framed, Protocol: frame.Binary}, false, framed(binary)},
		{"framed compact", frame.Dialect{Framing: frame.Framed, Protocol: frame.Compact}, false, framed(compact)},
		{"unframed binary", frame.Dialect{Framing: frame.Unframed, Protocol: frame.Binary}, false, buffered(binary)},
		{"unframed compact", frame.Dialect{Framing: frame.Unframed, Protocol: frame.Compact}, false, buffered(compact)},
	}
}

// memory is a transport in memory that can be written and read.
func memory(wire []byte) *thrift.TMemoryBuffer {
	return &thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(wire)}
}

// inMemory returns a protocol of Apache's library on a transport in memory.
func inMemory(buf *thrift.TMemoryBuffer, p frame.Protocol) thrift.TProtocol {
	if p == frame.Compact {
		return thrift.NewTCompactProtocolConf(buf, nil)
	}
	return thrift.NewTBinaryProtocolConf(buf, nil)
}

// Messages with random values of all types, written by Apache's library, are read in all its dialects. Encoded again, Apache's library reads them.
func TestThriftMessages(t *testing.T) {
	ctx := context.Background()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			for seed := range uint64(200) {
				buf := memory(nil)
				out := d.protocol(buf)
				if h, ok := out.(*thrift.THeaderProtocol); ok {
					h.SetWriteHeader("seed", fmt.Sprint(seed))
					h.SetWriteHeader("empty", "")
				}
				w := &writer{r: rand.New(rand.NewPCG(seed, 1)), p: out}
				w.check(out.WriteMessageBegin(ctx, "Method", thrift.ONEWAY, int32(seed)-100))
				w.structure(3)
				w.check(out.WriteMessageEnd(ctx))
				w.check(out.Flush(ctx))
				if w.err != nil {
					t.Fatal(w.err)
				}
				wire := bytes.Clone(buf.Bytes())
				c := frame.New(nil)
				_, n, err := c.Decode(wire)
				f := c.Frame()
				if n != len(wire) || err != nil || f.Dialect != d.d || f.Kind != frame.OneWay || string(f.Method) != "Method" || f.Sequence != int32(seed)-100 {
					t.Fatalf("seed %d: %d of %d bytes, %v: %+v", seed, n, len(wire), err, f)
				}
				if d.d.Framing == frame.THeader && (string(f.Value("seed")) != fmt.Sprint(seed) || f.Value("empty") == nil || len(f.Transforms) > 0 != d.zlib) {
					t.Fatalf("seed %d: the header was read as %+v", seed, f)
				}
				again, err := f.Append(nil)
				if err != nil || !d.zlib && !bytes.Equal(again, wire) {
					t.Fatalf("seed %d: written again\n%x, %v\nwant\n%x", seed, again, err, wire)
				}
				readBack(t, d, again, w.values, seed)
			}
		})
	}
}

// readBack has Apache's library read a message with a number of values.
func readBack(t *testing.T, d dialect, wire []byte, values int, seed uint64) {
	t.Helper()
	ctx := context.Background()
	buf := memory(wire)
	in := d.protocol(buf)
	name, kind, sequence, err := in.ReadMessageBegin(ctx)
	if name != "Method" || kind != thrift.ONEWAY || sequence != int32(seed)-100 || err != nil {
		t.Fatalf("seed %d: Apache's library reads %s %v %d, %v", seed, name, kind, sequence, err)
	}
	if h, ok := in.(*thrift.THeaderProtocol); ok && h.GetReadHeaders()["seed"] != fmt.Sprint(seed) {
		t.Fatalf("seed %d: Apache's library reads the header %v", seed, h.GetReadHeaders())
	}
	if err := in.Skip(ctx, thrift.STRUCT); err != nil {
		t.Fatalf("seed %d, %d values: %v", seed, values, err)
	}
	if left := buf.Len(); left != 0 {
		t.Fatalf("seed %d: Apache's library leaves %d bytes", seed, left)
	}
}

// writer writes random values with a protocol of Apache's library.
type writer struct {
	r      *rand.Rand
	p      thrift.TProtocol
	values int
	err    error
}

func (w *writer) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

// types are all types of values. The last four have values inside.
var types = []thrift.TType{
	thrift.BOOL, thrift.BYTE, thrift.DOUBLE, thrift.I16, thrift.I32, thrift.I64, thrift.STRING, thrift.UUID,
	thrift.STRUCT, thrift.MAP, thrift.SET, thrift.LIST,
}

func (w *writer) kind(depth int) thrift.TType {
	if depth <= 0 {
		return types[w.r.IntN(len(types)-4)]
	}
	return types[w.r.IntN(len(types))]
}

func (w *writer) structure(depth int) {
	ctx := context.Background()
	w.check(w.p.WriteStructBegin(ctx, "s"))
	for range w.r.IntN(5) {
		kind := w.kind(depth)
		w.check(w.p.WriteFieldBegin(ctx, "f", kind, int16(w.r.IntN(40)-5)))
		w.value(kind, depth)
		w.check(w.p.WriteFieldEnd(ctx))
	}
	w.check(w.p.WriteFieldStop(ctx))
	w.check(w.p.WriteStructEnd(ctx))
}

func (w *writer) value(kind thrift.TType, depth int) {
	ctx := context.Background()
	w.values++
	switch kind {
	case thrift.BOOL:
		w.check(w.p.WriteBool(ctx, w.r.IntN(2) == 0))
	case thrift.BYTE:
		w.check(w.p.WriteByte(ctx, int8(w.r.Uint32())))
	case thrift.DOUBLE:
		w.check(w.p.WriteDouble(ctx, w.r.Float64()))
	case thrift.I16:
		w.check(w.p.WriteI16(ctx, int16(w.r.Uint32())))
	case thrift.I32:
		w.check(w.p.WriteI32(ctx, int32(w.r.Uint32())>>w.r.IntN(32)))
	case thrift.I64:
		w.check(w.p.WriteI64(ctx, int64(w.r.Uint64())>>w.r.IntN(64)))
	case thrift.STRING:
		w.check(w.p.WriteString(ctx, string(make([]byte, w.r.IntN(200)))))
	case thrift.UUID:
		w.check(w.p.WriteUUID(ctx, thrift.Tuuid{1, 2, 3}))
	case thrift.STRUCT:
		w.structure(depth - 1)
	default:
		w.container(kind, depth-1)
	}
}

func (w *writer) container(kind thrift.TType, depth int) {
	ctx := context.Background()
	n, key, value := w.r.IntN(20), w.kind(depth), w.kind(depth)
	switch kind {
	case thrift.MAP:
		w.check(w.p.WriteMapBegin(ctx, key, value, n))
	case thrift.SET:
		w.check(w.p.WriteSetBegin(ctx, value, n))
	default:
		w.check(w.p.WriteListBegin(ctx, value, n))
	}
	for range n {
		if kind == thrift.MAP {
			w.value(key, depth)
		}
		w.value(value, depth)
	}
}

// Exceptions of Apache's library are read, and it reads ours.
func TestThriftExceptions(t *testing.T) {
	ctx := context.Background()
	for _, p := range []frame.Protocol{frame.Binary, frame.Compact} {
		protocol := func(buf *thrift.TMemoryBuffer) thrift.TProtocol { return inMemory(buf, p) }
		for _, want := range []frame.ApplicationException{
			{Code: frame.UnknownMethod, Message: "unknown method"}, {Code: -5, Message: "negative"}, {Code: 1 << 30, Message: "é"},
		} {
			buf := memory(nil)
			if err := thrift.NewTApplicationException(want.Code, want.Message).Write(ctx, protocol(buf)); err != nil {
				t.Fatal(err)
			}
			if got, err := frame.ParseException(p, buf.Bytes()); err != nil || *got != want {
				t.Errorf("%v: %+v, %v, want %+v", p, got, err, want)
			}
			ours := want.AppendBody(nil, p)
			if !bytes.Equal(ours, buf.Bytes()) {
				t.Errorf("%v: %+v is written as\n%x, Apache's library has\n%x", p, want, ours, buf.Bytes())
			}
			got := thrift.NewTApplicationException(0, "")
			if err := got.Read(ctx, protocol(memory(ours))); err != nil || got.TypeId() != want.Code || got.Error() != want.Message {
				t.Errorf("%v: Apache's library reads %d %q, %v", p, got.TypeId(), got.Error(), err)
			}
		}
	}
}
