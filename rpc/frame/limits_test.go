package frame_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"

	"github.com/sluice-push/sluice/rpc/frame"
)

// A frame has MaxFrame bytes at most, however its length is given, and by default 4 MiB; a negative limit is that of the format.
func TestMaxFrame(t *testing.T) {
	unframed := func(size int) []byte { // a message of that size with one string
		out := append(unhex("80010001 00000001 45 00000007 0b 0001"), byte((size-21)>>24), byte((size-21)>>16), byte((size-21)>>8), byte(size-21))
		return append(out, make([]byte, size-20)...)
	}
	framed := func(size int) []byte {
		out := append([]byte{byte((size - 4) >> 24), byte((size - 4) >> 16), byte((size - 4) >> 8), byte(size - 4)}, unhex("80010001 00000001 45 00000007")...)
		return append(out, make([]byte, size-17)...)
	}
	fields := func(size int) []byte { // the end of the struct is the last byte
		out := unhex("80010001 00000001 45 00000007")
		for len(out) < size-1 {
			out = append(out, 3, 0, 1, 0) // a byte
		}
		return append(out, 0)
	}
	for _, tt := range []struct {
		name string
		max  int
		in   []byte
		ok   bool
	}{
		{"framed at the limit", 102, framed(102), true},
		{"framed beyond the limit", 102, framed(103), false},
		{"unframed at the limit", 102, unframed(102), true},
		{"unframed beyond the limit", 102, unframed(103), false},
		{"unframed, the end at the limit", 102, fields(102), true},
		{"unframed, the end beyond the limit", 101, fields(102), false},
		{"unframed, a field beyond the limit", 98, fields(102), false},
		{"by default", 0, framed(4 << 20), true},
		{"by default beyond", 0, framed(4<<20 + 1), false},
		{"without a limit", -1, framed(4<<20 + 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := frame.New(&frame.Options{MaxFrame: tt.max}).Decode(tt.in)
			if tt.ok && (n != len(tt.in) || err != nil) || !tt.ok && !errors.Is(err, frame.ErrTooLarge) {
				t.Errorf("%d of %d bytes, %v", n, len(tt.in), err)
			}
		})
	}
}

// A codec does not keep the buffer of a large message longer than the message is valid.
func TestLargeBuffersAreDropped(t *testing.T) {
	plain := append(unhex("80010001 00000001 45 00000007"), make([]byte, 1<<20)...)
	large, small := compressed(t, frame.Zlib, plain, nil), compressed(t, frame.Zlib, plain[:100], nil)
	c := frame.New(nil)
	decode := func(in []byte, want int) {
		t.Helper()
		if body, n, err := c.Decode(in); n != len(in) || len(body) != want || err != nil {
			t.Fatalf("%d bytes of %d, %d of %d, %v", n, len(in), len(body), want, err)
		}
	}
	decode(large, 1<<20)
	if kept := frame.Kept(c); kept < 1<<20 {
		t.Fatalf("%d bytes are kept for a message of 1 MiB that is in use", kept)
	}
	if _, n, err := c.Decode(nil); n != -4 || err != nil || frame.Kept(c) != 0 {
		t.Errorf("%d, %v: %d bytes are kept for the next message", n, err, frame.Kept(c))
	}
	decode(small, 87)
	kept := frame.Kept(c)
	decode(small, 87)
	if frame.Kept(c) != kept || kept == 0 || kept > 64<<10 {
		t.Errorf("%d bytes are kept, %d before", frame.Kept(c), kept)
	}
}

// After Rest, and after the next Decode, a codec keeps neither the bytes of a frame alive nor room for very many pairs.
func TestRest(t *testing.T) {
	for name, rest := range map[string]func(c *frame.Codec){
		"Rest":   (*frame.Codec).Rest,
		"Decode": func(c *frame.Codec) { _, _, _ = c.Decode(nil) },
	} {
		for _, d := range dialects {
			c := frame.New(nil)
			alive := decodeOnce(t, c, d)
			rest(c)
			runtime.GC()
			if alive.Value() != nil {
				t.Errorf("%s: the bytes of a frame of the dialect %v are alive", name, d)
			}
			runtime.KeepAlive(c)
		}
	}
	f := frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Call, Sequence: 7}
	for i := range uint16(100) {
		f.Add("key", "value")
		f.AddInt(1000+i, "value")
	}
	wire, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := frame.New(nil)
	if _, n, err := c.Decode(wire); n != len(wire) || err != nil || len(c.Frame().Pairs) != 100 || len(c.Frame().Ints) != 100 {
		t.Fatalf("%d of %d bytes, %v: %d, %d pairs", n, len(wire), err, len(c.Frame().Pairs), len(c.Frame().Ints))
	}
	if c.Rest(); cap(c.Frame().Pairs) != 0 || cap(c.Frame().Ints) != 0 {
		t.Errorf("there is room for %d and %d pairs", cap(c.Frame().Pairs), cap(c.Frame().Ints))
	}
}

// decodeOnce decodes a frame whose bytes nothing else refers to.
//
//go:noinline
func decodeOnce(t *testing.T, c *frame.Codec, d frame.Dialect) weak.Pointer[byte] {
	wire, err := sample(rand.New(rand.NewPCG(1, 1)), d).Append(make([]byte, 0, 8<<10))
	if err != nil {
		t.Fatal(err)
	}
	if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
		t.Fatal(n, err)
	}
	return weak.Make(&wire[0])
}

// What was compressed while a large message was written does not stay in the way of the next, and a message that was compressed twice is read.
func TestCompressesTwice(t *testing.T) {
	body := bytes.Repeat([]byte("hello "), 100_000)
	f := frame.Frame{
		Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, Kind: frame.Call, Method: []byte("E"),
		Transforms: []frame.Transform{frame.Gzip, frame.Zlib}, Sequence: 7, HeaderSequence: 7,
	}
	for _, size := range []int{len(body), 10, 0} {
		wire, err := f.AppendEncode(nil, body[:size])
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := frame.New(nil).Decode(wire)
		if n != len(wire) || err != nil || !bytes.Equal(got, body[:size]) {
			t.Errorf("%d of %d bytes, %v: %d bytes, want %d", n, len(wire), err, len(got), size)
		}
	}
}
