package frame_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
)

// FuzzDecode checks that the frames do not depend on the pieces in which their bytes arrive, that a frame that was read and written again says the
// same, and so does its head.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		f.Add(uint8(3), unhex(v.wire))
	}
	f.Add(uint8(1), unhex("80010001 00000001 45 00000007 0d 0001 0b0f 00000001 00000001 41 0c 00000002 00 00 00"))
	f.Add(uint8(1), unhex("82 21 07 01 45 1b 01 89 01 41 1c 00 00"))
	f.Add(uint8(2), headerOf(0x1000, "20 00 10 0002 0016 0001 31 0009 0005 4545454545"))
	f.Add(uint8(2), unhex("00000023 1000 0000 00000000 0006 20 00 10 0002 0016 0001 31 0009 0005 4545454545 00000000 0000"))
	f.Add(uint8(2), unhex("00000023 1000 0002 00000000 0006 20 00 10 0002 0016 0001 31 0009 0005 4545454545 00000000 0000"))
	f.Add(uint8(5), compressed(f, frame.Zlib, unhex("80010001 00000001 45 00000007 00"), nil))
	f.Add(uint8(5), compressed(f, frame.Gzip, unhex("80010001 00000001 45 00000007 00"), nil))
	limits := &frame.Options{MaxFrame: 2 << 10, MaxBody: 4 << 10, MaxHeader: 1 << 10, MaxPairs: 16, MaxPair: 256, MaxDepth: 8}
	f.Fuzz(func(t *testing.T, step uint8, in []byte) {
		in = in[:min(len(in), 4<<10)]
		whole, used, err := drain(t, limits, in, len(in)+1, nil)
		for _, step := range []int{1, 1 + int(step)} {
			pieces, used2, err2 := drain(t, limits, in, step, nil)
			if used != used2 || (err == nil) != (err2 == nil) || !slices.Equal(whole, pieces) {
				t.Fatalf("whole: %q, %d bytes, %v; in steps of %d: %q, %d, %v", whole, used, err, step, pieces, used2, err2)
			}
		}
		again(t, limits, in)
		fuzzHead(t, limits, in)
	})
}

// fuzzHead compares the head of the first frame of in with that frame, or decodes whatever there is.
func fuzzHead(t *testing.T, limits *frame.Options, in []byte) {
	whole := frame.New(limits)
	if _, n, err := whole.Decode(in); err == nil && n > 0 && whole.Frame().Dialect.Framing != frame.Unframed {
		checkHead(t, limits, in, n, whole.Frame())
		return
	}
	if head, size, err := frame.New(limits).DecodeHead(in); head > size && head > 0 || head > len(in) || err != nil && head != 0 {
		t.Fatalf("a head of %d bytes in a frame of %d, of which there are %d, %v", head, size, len(in), err)
	}
}

// again writes the first frame of in once more, and reads that.
func again(t *testing.T, limits *frame.Options, in []byte) {
	c := frame.New(limits)
	if _, n, err := c.Decode(in); n <= 0 || err != nil {
		return
	}
	before := bytes.Clone(in)
	want := said(c.Frame())
	wire, err := c.Frame().Append(nil)
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if !bytes.Equal(in, before) {
		t.Fatalf("decoding changed the bytes")
	}
	c2 := frame.New(nil) // a compressed or padded frame may be longer now
	if _, n, err := c2.Decode(wire); n != len(wire) || err != nil || show(c2.Frame()) != want {
		t.Fatalf("%s\ncame back as\n%s, %d of %d bytes, %v", want, show(c2.Frame()), n, len(wire), err)
	}
}

// FuzzException checks that an exception that was read and written again says the same.
func FuzzException(f *testing.F) {
	protocols := []frame.Protocol{frame.Binary, frame.Compact, frame.Protobuf}
	e := frame.ApplicationException{Code: 6, Message: "broken"}
	for i, p := range protocols {
		f.Add(uint8(i), e.AppendBody(nil, p))
	}
	f.Add(uint8(1), unhex("1c 18 01 41 00 08 02 02 6869 15 02 00"))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		p := protocols[int(which)%len(protocols)]
		e, err := frame.ParseException(p, body)
		if err != nil {
			return
		}
		if got, err := frame.ParseException(p, e.AppendBody(nil, p)); err != nil || *got != *e {
			t.Fatalf("%+v came back as %+v, %v", e, got, err)
		}
	})
}
