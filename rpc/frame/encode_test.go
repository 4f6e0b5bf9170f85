package frame_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
	"pgregory.net/rapid"
)

// Dialects of the table below.
var (
	apacheDialect = dialect(frame.THeader, frame.Binary, false)
	kitexDialect  = dialect(frame.TTHeader, frame.Binary, false)
	bareDialect   = dialect(frame.TTHeader, frame.Bare, false)
	framedDialect = dialect(frame.Framed, frame.Binary, false)

	long64K = strings.Repeat("x", 1<<16)
)

func dialect(framing frame.Framing, protocol frame.Protocol, wrapped bool) frame.Dialect {
	return frame.Dialect{Framing: framing, Protocol: protocol, Wrapped: wrapped}
}

// adding returns a function that adds a pair.
func adding(key, value string) func(*frame.Frame) {
	return func(f *frame.Frame) { f.Add(key, value) }
}

// persistent returns a function that adds a persistent pair.
func persistent(key string) func(*frame.Frame) {
	return func(f *frame.Frame) {
		f.Add(key, "")
		f.Pairs[0].Persistent = true
	}
}

// unencodable are frames that a dialect cannot express, or just can.
var unencodable = []struct {
	name   string
	d      frame.Dialect
	change func(*frame.Frame)
	err    error // nil if it is allowed
}{
	{"no dialect", frame.Dialect{}, nil, frame.ErrUnsupported},
	{"no protocol", dialect(frame.THeader, 0, false), nil, frame.ErrUnsupported},
	{"framing 5", dialect(5, frame.Binary, false), nil, frame.ErrUnsupported},
	{"protocol 7", dialect(frame.TTHeader, 7, false), nil, frame.ErrUnsupported},
	{"Protobuf in THeader", dialect(frame.THeader, frame.Protobuf, false), nil, frame.ErrUnsupported},
	{"Protobuf unframed", dialect(frame.Unframed, frame.Protobuf, false), nil, frame.ErrUnsupported},
	{"Protobuf in TTHeader without its own length", dialect(frame.TTHeader, frame.Protobuf, false), nil, frame.ErrUnsupported},
	{"bare in THeader", dialect(frame.THeader, frame.Bare, false), nil, frame.ErrUnsupported},
	{"bare, wrapped", dialect(frame.TTHeader, frame.Bare, true), nil, frame.ErrUnsupported},
	{"framed, wrapped", dialect(frame.Framed, frame.Binary, true), nil, frame.ErrUnsupported},
	{"no kind", framedDialect, func(f *frame.Frame) { f.Kind = 0 }, frame.ErrUnsupported},
	{"kind 7", framedDialect, func(f *frame.Frame) { f.Kind = 7 }, frame.ErrUnsupported},
	{"control, framed", framedDialect, func(f *frame.Frame) { f.Kind = frame.Control }, frame.ErrUnsupported},
	{"control in THeader", apacheDialect, func(f *frame.Frame) { f.Kind, f.Sequence = frame.Control, 0 }, frame.ErrUnsupported},
	{"control with a sequence id", kitexDialect, func(f *frame.Frame) { f.Kind = frame.Control }, frame.ErrUnsupported},
	{"control", kitexDialect, func(f *frame.Frame) { f.Kind, f.Sequence = frame.Control, 0 }, nil},
	{"stream with an envelope", kitexDialect, func(f *frame.Frame) { f.Kind = frame.Stream }, frame.ErrUnsupported},
	{"call in a protocol of streams", dialect(frame.TTHeader, frame.ThriftStruct, false), nil, frame.ErrUnsupported},
	{"call with the flag of streams", kitexDialect, func(f *frame.Frame) { f.Flags = frame.FlagStreaming }, frame.ErrUnsupported},
	{"bare call with the sequence id 0", bareDialect, func(f *frame.Frame) { f.Sequence = 0 }, frame.ErrUnsupported},
	{"bare call with a key twice", bareDialect, func(f *frame.Frame) { f.AddInt(frame.KeyMethod, "m") }, frame.ErrUnsupported},
	{"bare call with a method of 64 KiB", bareDialect, func(f *frame.Frame) { f.SetMethod(long64K) }, frame.ErrTooLarge},
	{"pairs, framed", framedDialect, adding("k", "v"), frame.ErrUnsupported},
	{"flags, framed", framedDialect, func(f *frame.Frame) { f.Flags = 1 }, frame.ErrUnsupported},
	{"transform, framed", framedDialect, func(f *frame.Frame) { f.Transforms = []frame.Transform{frame.Zlib} }, frame.ErrUnsupported},
	{"integer key in THeader", apacheDialect, func(f *frame.Frame) { f.AddInt(9, "v") }, frame.ErrUnsupported},
	{"token in THeader", apacheDialect, func(f *frame.Frame) { f.Token = []byte{} }, frame.ErrUnsupported},
	{"gzip in THeader", apacheDialect, func(f *frame.Frame) { f.Transforms = []frame.Transform{frame.Gzip} }, frame.ErrUnsupported},
	{"Snappy", kitexDialect, func(f *frame.Frame) { f.Transforms = []frame.Transform{3} }, frame.ErrUnsupported},
	{"4 transforms", kitexDialect, func(f *frame.Frame) { f.Transforms = bytesOf(frame.Zlib, 4) }, nil},
	{"5 transforms", kitexDialect, func(f *frame.Frame) { f.Transforms = bytesOf(frame.Zlib, 5) }, frame.ErrTooLarge},
	{"key of 65535 bytes", kitexDialect, adding(long64K[1:], ""), nil},
	{"key of 65536 bytes", kitexDialect, adding(long64K, ""), frame.ErrTooLarge},
	{"persistent key of 65535 bytes with its prefix", kitexDialect, persistent(long64K[13:]), nil},
	{"persistent key of 65536 bytes with its prefix", kitexDialect, persistent(long64K[12:]), frame.ErrTooLarge},
	{"value of 65536 bytes", kitexDialect, adding("k", long64K), frame.ErrTooLarge},
	{"integer value of 65536 bytes", kitexDialect, func(f *frame.Frame) { f.AddInt(9, long64K) }, frame.ErrTooLarge},
	{"token of 65536 bytes", kitexDialect, func(f *frame.Frame) { f.Token = []byte(long64K) }, frame.ErrTooLarge},
	{"value of 65536 bytes in THeader", apacheDialect, adding("k", long64K), nil},
	{"header of 256 KiB in THeader", apacheDialect, adding("k", long64K+long64K+long64K+long64K), frame.ErrTooLarge},
}

// What a dialect cannot express is refused, and the bytes before the frame stay as they are.
func TestEncodeRefusals(t *testing.T) {
	for _, tt := range unencodable {
		t.Run(tt.name, func(t *testing.T) {
			f := &frame.Frame{Dialect: tt.d, Kind: frame.Call, Sequence: 7, Body: []byte{0}}
			if tt.change != nil {
				tt.change(f)
			}
			before := []byte("before")
			out, err := f.Append(before)
			switch {
			case tt.err == nil && err != nil, !errors.Is(err, tt.err):
				t.Fatalf("%v, want %v", err, tt.err)
			case err != nil && string(out) != "before", err == nil && !bytes.HasPrefix(out, before):
				t.Fatalf("the bytes before became %q", out)
			case err != nil:
				return
			}
			if _, n, err := frame.New(&frame.Options{MaxHeader: -1, MaxPair: -1}).Decode(out[6:]); n != len(out)-6 || err != nil {
				t.Fatalf("what is allowed is not read: %d of %d bytes, %v", n, len(out)-6, err)
			}
		})
	}
}

// bytesOf returns n equal transforms.
func bytesOf(t frame.Transform, n int) []frame.Transform {
	out := make([]frame.Transform, n)
	for i := range out {
		out[i] = t
	}
	return out
}

// A frame without transforms is the same in two parts, and refused for the same reasons.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		compressed := len(f.Transforms) > 0
		want, err := f.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		head, err := (*frame.Plain)(f).AppendHeader([]byte("before"), f.Body)
		whole, err2 := (*frame.Plain)(f).AppendEncode([]byte("before"), f.Body)
		switch {
		case compressed && (!errors.Is(err, frame.ErrUnsupported) || !errors.Is(err2, frame.ErrUnsupported) || string(head) != "before" || string(whole) != "before"):
			t.Fatalf("compressed: %q, %v, %q, %v", head, err, whole, err2)
		case !compressed && (err != nil || err2 != nil || !bytes.Equal(whole, want) || !bytes.Equal(append(head, f.Body...), want)):
			t.Fatalf("%s:\n%x, %v\n%x, %v\nwant\n%x", show(f), head, err, whole, err2, want)
		}
	})
	for _, tt := range unencodable {
		f := frame.Frame{Dialect: tt.d, Kind: frame.Call, Sequence: 7, Body: []byte{0}}
		if tt.change != nil {
			tt.change(&f)
		}
		if _, err := (*frame.Plain)(&f).AppendHeader(nil, f.Body); tt.err != nil && err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
}

// A frame has at most 1 GiB after its length.
func TestLargestFrame(t *testing.T) {
	for _, d := range dialects {
		f := frame.Frame{Dialect: d, Kind: kinds(d)[0], Sequence: 7}
		head, err := frame.Prefix(&f, 0)
		if err != nil {
			t.Fatal(err)
		}
		most := 0x3FFFFFFF + 4 - len(head)
		if _, err := frame.Prefix(&f, most); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		if _, err := frame.Prefix(&f, most+1); !errors.Is(err, frame.ErrTooLarge) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// The codec sends complete frames as they are, for sessions that encode a frame once and send it to many.
func TestCodecSendsFrames(t *testing.T) {
	out, err := frame.New(nil).AppendEncode([]byte("a"), []byte("b"))
	if string(out) != "ab" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if out, err = frame.New(nil).AppendHeader([]byte("a"), []byte("b")); string(out) != "a" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// An exception is read as it was written, in all protocols.
func TestExceptions(t *testing.T) {
	for _, e := range []frame.ApplicationException{
		{},
		{Code: frame.UnknownMethod, Message: "unknown method Echo"},
		{Code: -1, Message: strings.Repeat("long ", 100)},
		{Code: 1<<31 - 1},
		{Code: -1 << 31, Message: "x"},
		{Message: "no code"},
	} {
		for _, p := range []frame.Protocol{frame.Binary, frame.Compact, frame.Protobuf, frame.ThriftStruct, frame.ProtobufStruct, frame.Bare} {
			body := e.AppendBody([]byte("b"), p)
			got, err := frame.ParseException(p, body[1:])
			if err != nil || *got != e || body[0] != 'b' {
				t.Errorf("%v: %+v came back as %+v, %v", p, e, got, err)
			}
			for at := range len(body) - 1 {
				if _, err := frame.ParseException(p, body[1:1+at]); err == nil && (p == frame.Binary || p == frame.Compact) {
					t.Errorf("%v: %d of %d bytes are an exception", p, at, len(body)-1)
				}
			}
		}
	}
	e := frame.ApplicationException{Code: 6, Message: "broken"}
	if text := e.Error(); text != "broken (application exception 6)" {
		t.Error(text)
	}
}

// The bytes of exceptions, as Apache's libraries and Kitex write them, and with unknown fields.
func TestExceptionVectors(t *testing.T) {
	for _, tt := range []struct {
		p    frame.Protocol
		body string
		want frame.ApplicationException
		err  bool
	}{
		{frame.Binary, "0b 0001 00000002 6869 08 0002 00000001 00", frame.ApplicationException{Code: 1, Message: "hi"}, false},
		{frame.Binary, "08 0002 00000001 0c 0003 0b 0001 00000001 41 00 0b 0001 00000002 6869 00", frame.ApplicationException{Code: 1, Message: "hi"}, false},
		{frame.Binary, "0b 0002 00000002 6869 08 0001 00000001 00", frame.ApplicationException{}, false}, // the types are wrong
		{frame.Binary, "00", frame.ApplicationException{}, false},
		{frame.Binary, "00 00", frame.ApplicationException{}, true},
		{frame.Binary, "0b 0001 000000ff 6869 00", frame.ApplicationException{}, true},
		{frame.Binary, "07 0001 00", frame.ApplicationException{}, true},
		{frame.Compact, "18 02 6869 15 02 00", frame.ApplicationException{Code: 1, Message: "hi"}, false},
		{frame.Compact, "11 | 05 04 0d | 08 02 02 6869 00", frame.ApplicationException{Code: -7, Message: "hi"}, false}, // ids in full
		{frame.Compact, "1c 18 01 41 00 | 08 02 02 6869 | 15 02 00", frame.ApplicationException{Code: 1, Message: "hi"}, false},
		{frame.Compact, "18 ff", frame.ApplicationException{}, true},
		{frame.Protobuf, "08 01 12 02 6869", frame.ApplicationException{Code: 1, Message: "hi"}, false},
		{frame.Protobuf, "1a 01 41 | 21 0000000000000000 | 2d 00000000 | 30 05 | 08 ffffffffffffffffff01", frame.ApplicationException{Code: -1}, false},
		{frame.Protobuf, "12 03 6869", frame.ApplicationException{}, true},
		{frame.Protobuf, "0b", frame.ApplicationException{}, true},
		{frame.Protobuf, "08", frame.ApplicationException{}, true},
		{frame.Protobuf, "ff", frame.ApplicationException{}, true},
	} {
		got, err := frame.ParseException(tt.p, unhex(tt.body))
		switch {
		case tt.err && !errors.Is(err, frame.ErrMalformed) && !errors.Is(err, frame.ErrTooLarge):
			t.Errorf("%v %s: %+v, %v", tt.p, tt.body, got, err)
		case !tt.err && (err != nil || *got != tt.want):
			t.Errorf("%v %s: %+v, %v, want %+v", tt.p, tt.body, got, err, tt.want)
		}
	}
}

// Names are those of the documentation.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		dialects[2].String(): "THeader binary, wrapped", dialects[11].String(): "TTHeader bare", dialects[14].String(): "framed Protobuf",
		frame.Framing(9).String(): "framing 9", frame.Protocol(9).String(): "protocol 9", frame.Kind(9).String(): "kind 9",
		frame.Transform(9).String(): "transform 9", frame.OneWay.String(): "one-way", frame.Stream.String(): "stream",
		frame.Control.String(): "control", frame.Exception.String(): "exception", frame.Reply.String(): "reply",
		frame.ThriftStruct.String(): "Thrift struct", frame.ProtobufStruct.String(): "Protobuf struct", frame.Unframed.String(): "unframed",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Decoding and encoding allocate nothing, once the lists of the frame have grown.
func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			f := sample(r, d)
			wire, err := f.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			c, buf := frame.New(nil), make([]byte, 0, 2*len(wire))
			var reply frame.Frame
			if allocs := testing.AllocsPerRun(100, func() {
				if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
					t.Fatal(n, err)
				}
				if reply.Answer(c.Frame(), c.Frame().Kind); len(reply.Method) > 0 {
					reply.Add("took", "12")
					reply.Pairs = reply.Pairs[:0]
				}
				if _, err := reply.AppendEncode(buf, c.Frame().Body); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Frame().Append(buf); err != nil {
					t.Fatal(err)
				}
			}); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}
