package codec_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// suite checks the common behaviour of all codecs whose messages have boundaries. newCodec is called for each connection. Each sample is either
// carried unchanged or refused, with dst as it was.
func suite(t *testing.T, newCodec func() codec.Framer, samples ...[]byte) {
	t.Helper()
	var carried [][]byte
	var ends []int
	stream := []byte("before")
	enc := newCodec()
	for _, msg := range samples {
		out, err := enc.AppendEncode(stream, msg)
		switch {
		case err != nil && !bytes.Equal(out, stream):
			t.Fatalf("encoding %q failed and left %q behind", msg, out[len(stream):])
		case err != nil:
			continue
		case len(out) <= len(stream) || !bytes.Equal(out[:len(stream)], stream):
			t.Fatalf("encoding %q made of %q %q", msg, stream, out)
		}
		stream = out
		carried, ends = append(carried, msg), append(ends, len(out)-len("before"))
	}
	stream = stream[len("before"):]
	for _, step := range []int{1, 2, 3, 7, len(stream) + 1} {
		got, used, err := drain(t, newCodec(), stream, step, ends)
		if err != nil || used != len(stream) || !slices.EqualFunc(got, carried, bytes.Equal) {
			t.Fatalf("in steps of %d: %q came back as %q, %d of %d bytes, %v", step, carried, got, used, len(stream), err)
		}
	}
}

// drain feeds a codec with step more bytes each time, but calls Decode only when it has as many bytes as requested. ends are the ends of the
// frames, if they are known.
func drain(t *testing.T, c codec.Framer, stream []byte, step int, ends []int) (msgs [][]byte, used int, err error) {
	t.Helper()
	need := 1
	for have := min(step, len(stream)); ; have = min(have+step, len(stream)) {
		for have-used >= need {
			msg, n, err := decode(t, c, stream[used:have])
			if err != nil {
				return msgs, used, err
			}
			if n <= 0 {
				need = have - used + max(-n, 1)
				if end := firstAfter(ends, used); end > 0 && used+need > end {
					t.Fatalf("with %d of %d bytes of a frame, %d more are asked for", have-used, end-used, -n)
				}
				break
			}
			if msg != nil {
				msgs = append(msgs, bytes.Clone(msg))
			}
			used += n
			need = 1
		}
		if have == len(stream) {
			return msgs, used, nil
		}
	}
}

// firstAfter returns the first end after position at, or 0.
func firstAfter(ends []int, at int) int {
	for _, end := range ends {
		if end > at {
			return end
		}
	}
	return 0
}

// decode calls Decode and checks the rules for every call: Decode reads no bytes behind in, changes none, and its results are consistent.
func decode(t *testing.T, c codec.Framer, in []byte) ([]byte, int, error) {
	t.Helper()
	before := append(bytes.Clone(in), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	behind := slices.Concat(in, []byte("\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	_, n2, err2 := c.Decode(behind[:len(in)])
	msg, n, err := c.Decode(before[:len(in)])
	switch {
	case n != n2 || (err == nil) != (err2 == nil):
		t.Fatalf("%q gives %d, %v or %d, %v: it depends on what is behind it", in, n, err, n2, err2)
	case !bytes.Equal(before[:len(in)], in):
		t.Fatalf("%q was changed to %q", in, before[:len(in)])
	case n > len(in):
		t.Fatalf("%d bytes of %q were used", n, in)
	case err != nil && (msg != nil || n != 0):
		t.Fatalf("%q gives %q, %d with %v", in, msg, n, err)
	case (msg != nil) != (n > 0):
		t.Fatalf("%q gives %q (nil: %v) and %d", in, msg, msg == nil, n)
	case cap(msg) != len(msg):
		t.Fatalf("appending to %q would overwrite what is behind it", msg)
	}
	return msg, n, err
}

// comp is the Compression of all tests of compressed codecs.
func newComp(o codec.CompressionOptions, inner codec.Framer) func() codec.Framer {
	comp := codec.NewCompression(&o)
	return func() codec.Framer { return comp.New(inner) }
}

func stateless(c codec.Framer) func() codec.Framer { return func() codec.Framer { return c } }

// tried are the codecs for all tests that apply to any codec; the fuzz targets choose one by their first argument. The limits are small, so that
// little input exceeds them.
var tried = []struct {
	name string
	make func() codec.Framer
}{
	{"length 1", stateless(codec.Length{Bytes: 1, Max: 40})},
	{"length 2", stateless(codec.Length{Bytes: 2, Max: 40})},
	{"length 2 little", stateless(codec.Length{Bytes: 2, Little: true})},
	{"length 4", stateless(codec.Length{Max: 300})},
	{"length 4 little", stateless(codec.Length{Max: 300, Little: true})},
	{"length 8", stateless(codec.Length{Bytes: 8, Max: -1})},
	{"length 8 little", stateless(codec.Length{Bytes: 8, Little: true})},
	{"length varint", stateless(codec.Length{Varint: true, Max: 300})},
	{"length varint no limit", stateless(codec.Length{Varint: true, Max: -1})},
	{"length of itself", stateless(codec.Length{Adjust: -4, Max: 300})},
	{"length and a header", stateless(codec.Length{Bytes: 2, Adjust: 3, Max: 300})},
	{"length 8 and a header", stateless(codec.Length{Bytes: 8, Adjust: 3, Max: -1})},
	{"whole", stateless(codec.Length{Adjust: -4, Whole: true, Max: 300})},
	{"whole with offset", stateless(codec.Length{Bytes: 2, Offset: 3, Adjust: -2, Whole: true, Max: 300})},
	{"whole varint", stateless(codec.Length{Varint: true, Offset: 1, Whole: true, Max: 300})},
	{"line 5", stateless(codec.Line{Max: 5})},
	{"line no limit", stateless(codec.Line{Max: -1})},
	{"line crlf", stateless(codec.Line{CRLF: true, Max: 40})},
	{"delimiter", stateless(codec.Delimiter{End: "\x00", Max: 40})},
	{"delimiter crlf", stateless(codec.Delimiter{End: "\r\n\r\n", Max: 40})},
	{"delimiter in itself", stateless(codec.Delimiter{End: "aba", Max: 5})},
	{"delimiter long", stateless(codec.Delimiter{End: "--------------------------------------", Max: -1})},
	{"fixed", stateless(codec.Fixed{Size: 5})},
	{"deflate", newComp(codec.CompressionOptions{Threshold: -1, Max: 2000}, codec.Length{Max: 400})},
	{"gzip", newComp(codec.CompressionOptions{Format: codec.Gzip, Threshold: 8, Max: 2000, Level: 9}, codec.Length{Varint: true})},
	{"plain", newComp(codec.CompressionOptions{Level: -1, Max: 2000}, codec.Length{Bytes: 2, Max: 400})},
}

// samples are messages of which every codec carries some.
func samples() [][]byte {
	msgs := [][]byte{
		{},
		[]byte("\x00"), []byte("hello"), []byte("hello\r"), []byte("hel\nlo"), []byte("ab"), []byte("a\x00b"),
		[]byte("\x00\x00\x00\x04"), []byte("\x00\x00\x00\x09\x02abcd"), []byte("abc\x00\x05def"), []byte("\x30\x00"), []byte("\x30\x85\x00hello"),
		[]byte("\r\n\r"), []byte("\r\n\r\n"), []byte("aba"), bytes.Repeat([]byte("-"), 37),
		{0xff, 0xff, 0xff, 0xff},
	}
	for _, size := range []int{5, 6, 39, 40, 41, 127, 128, 255, 256, 300, 301, 1999, 2000, 2001} {
		msgs = append(msgs, bytes.Repeat([]byte("x"), size), random(uint64(size), size))
	}
	return msgs
}

func TestSuite(t *testing.T) {
	for _, tt := range tried {
		t.Run(tt.name, func(t *testing.T) { suite(t, tt.make, samples()...) })
	}
}

// Raw has no boundaries, so only the bytes are compared.
func TestRaw(t *testing.T) {
	stream := []byte("a stream of bytes")
	for _, c := range []codec.Raw{{}, {Max: 4}, {Max: -1}} {
		for _, step := range []int{1, 3, 5, 100} {
			msgs, used, err := drain(t, c, stream, step, nil)
			if err != nil || used != len(stream) || !bytes.Equal(bytes.Join(msgs, nil), stream) {
				t.Errorf("%+v in steps of %d: %q, %d bytes, %v", c, step, msgs, used, err)
			}
			for _, msg := range msgs {
				if len(msg) == 0 || c.Max > 0 && len(msg) > c.Max {
					t.Errorf("%+v in steps of %d: a message %q", c, step, msg)
				}
			}
		}
	}
	out, err := codec.Raw{Max: 1}.AppendEncode([]byte("before "), stream)
	if err != nil || string(out) != "before a stream of bytes" {
		t.Errorf("encoded %q, %v", out, err)
	}
}
