package frame_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
)

// small are limits that short frames reach.
var small = frame.Options{MaxFrame: 100, MaxBody: 60, MaxHeader: 40, MaxPairs: 3, MaxPair: 10, MaxMethod: 5, MaxDepth: 3}

// headerOf returns a frame with a header and the message of an empty call.
func headerOf(magic uint16, header string) []byte {
	h := unhex(header)
	for len(h)%4 != 0 {
		h = append(h, 0)
	}
	message := unhex("80010001 00000001 45 00000007 00")
	out := binary.BigEndian.AppendUint32(nil, uint32(10+len(h)+len(message)))
	out = binary.BigEndian.AppendUint16(out, magic)
	out = append(out, 0, 0, 0, 0, 0, 7)
	out = binary.BigEndian.AppendUint16(out, uint16(len(h)/4))
	return append(append(out, h...), message...)
}

// The envelope of an unframed call.
const (
	binaryHead  = "80010001 00000001 45 00000007 "
	compactHead = "82 21 07 01 45 "
)

// apache returns a THeader frame with a header, kitex a TTHeader frame.
func apache(header string) []byte { return headerOf(0x0FFF, header) }
func kitex(header string) []byte  { return headerOf(0x1000, header) }

// refusals are frames of which each breaks a rule, or just does not.
var refusals = []struct {
	name   string
	in     []byte
	err    error // nil if the frame is allowed
	offset int
}{
	{"HTTP", []byte("GET / HTTP/1.1\r\n"), frame.ErrDialect, 0},
	{"binary without a version, framed", unhex("0000000e 00000001 45 01 00000007 00000000"), frame.ErrDialect, 4},
	{"another version of binary", unhex("80020001"), frame.ErrDialect, 0},
	{"another version of compact", unhex("8222 0000"), frame.ErrDialect, 0},
	{"Protobuf without framing", unhex("90010001"), frame.ErrDialect, 0},
	{"length of 0", unhex("00000000"), frame.ErrMalformed, 0},
	{"length of 3", unhex("00000003"), frame.ErrMalformed, 0},
	{"length at the limit", append(unhex("00000060 80010001 00000001 45 00000007"), make([]byte, 83)...), frame.ErrTooLarge, 4}, // MaxBody
	{"length beyond the limit", unhex("00000061"), frame.ErrTooLarge, 0},
	{"length beyond the format", unhex("40000000"), frame.ErrDialect, 0},
	{"body at the limit", append(unhex("0000003c 80010001 00000001 45 00000007"), make([]byte, 47)...), nil, 0},
	{"body beyond the limit", append(unhex("0000003d 80010001 00000001 45 00000007"), make([]byte, 48)...), frame.ErrTooLarge, 4},

	{"kind 0", unhex("0000000e 80010000 00000001 45 00000007 00"), frame.ErrMalformed, 4},
	{"kind 5", unhex("0000000e 80010005 00000001 45 00000007 00"), frame.ErrMalformed, 4},
	{"kind 257", unhex("0000000e 80010101 00000001 45 00000007 00"), frame.ErrMalformed, 4},
	{"kind 0, compact", unhex("00000006 82 01 07 01 45 00"), frame.ErrMalformed, 4},
	{"method at the limit", unhex("00000012 80010001 00000005 4545454545 00000007 00"), nil, 0},
	{"method beyond the limit", unhex("00000013 80010001 00000006 454545454545 00000007 00"), frame.ErrTooLarge, 8},
	{"method beyond the frame", unhex("0000000a 80010001 00000004 4545"), frame.ErrMalformed, 12},
	{"no sequence id", unhex("00000009 80010001 00000001 45"), frame.ErrMalformed, 13},
	{"sequence id without an end, compact", unhex("00000004 82 21 ffff"), frame.ErrMalformed, 6},
	{"sequence id of 33 bits, compact", unhex("0000000a 82 21 ffffffff1f 01 45 00"), frame.ErrMalformed, 6},
	{"method beyond the limit, compact", unhex("0000000b 82 21 07 06 454545454545 00"), frame.ErrTooLarge, 7},

	{"unframed method at the limit", unhex("80010001 00000005 4545454545 00000007 00"), nil, 0},
	{"unframed method beyond the limit", unhex("80010001 00000006"), frame.ErrTooLarge, 4},
	{"unframed method of 4 GiB", unhex("80010001 ffffffff"), frame.ErrTooLarge, 4},
	{"unframed compact method beyond the limit", unhex("82 21 07 06"), frame.ErrTooLarge, 3},
	{"unframed compact sequence id of 33 bits", unhex("82 21 ffffffff1f"), frame.ErrMalformed, 2},
	{"unframed compact method length of 33 bits", unhex("82 21 07 ffffffff1f"), frame.ErrMalformed, 3},
	{"unframed kind 9", unhex("80010009 00000001 45 00000007 00"), frame.ErrMalformed, 0},
	{"unframed body beyond the limit", append(unhex(binaryHead+"0b 0001 00000028"), make([]byte, 41)...), frame.ErrTooLarge, 0},
	{"string beyond the limit", unhex(binaryHead + "0b 0001 00000060"), frame.ErrTooLarge, 16},
	{"string of 4 GiB", unhex(binaryHead + "0b 0001 ffffffff"), frame.ErrTooLarge, 16},
	{"string of 4 GiB, compact", unhex(compactHead + "18 ffffffff0f"), frame.ErrTooLarge, 6},
	{"string with a length of 33 bits", unhex(compactHead + "18 ffffffff1f"), frame.ErrMalformed, 6},
	{"list of 4 G integers", unhex(binaryHead + "0f 0001 08 ffffffff"), frame.ErrTooLarge, 21},
	{"list of 4 G structs", append(unhex(binaryHead+"0f 0001 0c ffffffff"), make([]byte, 100)...), frame.ErrTooLarge, 100},
	{"map of 4 G pairs of i64", unhex(binaryHead + "0d 0001 0a0a ffffffff"), frame.ErrTooLarge, 22},
	{"list of 4 G booleans, compact", unhex(compactHead + "19 f1 ffffffff0f"), frame.ErrTooLarge, 12},
	{"field of type 1", unhex(binaryHead + "01 0001"), frame.ErrMalformed, 13},
	{"field of type 17", unhex(binaryHead + "11 0001"), frame.ErrMalformed, 13},
	{"field of type 14, compact", unhex(compactHead + "1e"), frame.ErrMalformed, 5},
	{"list of type 0", unhex(binaryHead + "0f 0001 00 00000001"), frame.ErrMalformed, 16},
	{"empty list of type 0", unhex(binaryHead + "0f 0001 00 00000000 00"), nil, 0},
	{"map of type 0", unhex(binaryHead + "0d 0001 0b00 00000001"), frame.ErrMalformed, 16},
	{"empty map of type 0", unhex(binaryHead + "0d 0001 0000 00000000 00"), nil, 0},
	{"list of type 15, compact", unhex(compactHead + "19 1f"), frame.ErrMalformed, 6},
	{"map of type 0, compact", unhex(compactHead + "1b 01 08"), frame.ErrMalformed, 7},
	{"varint of 10 bytes", unhex(compactHead + "16 ffffffffffffffffff01 00"), nil, 0},
	{"varint of 11 bytes", unhex(compactHead + "16 ffffffffffffffffffff"), frame.ErrMalformed, 6},
	{"depth at the limit", unhex(binaryHead + "0c 0001 0c 0001 00 00 00"), nil, 0},
	{"depth beyond the limit", unhex(binaryHead + "0c 0001 0c 0001 0c 0001"), frame.ErrTooLarge, 22},
	{"depth beyond the limit, lists", unhex(binaryHead + "0f 0001 0f 00000001 0f 00000001 0b 00000001"), frame.ErrTooLarge, 31},

	{"THeader", apache("00 00"), nil, 0},
	{"THeader without a header", unhex("00000009 0fff 0000 00000007"), frame.ErrMalformed, 0},
	{"THeader with a header of 0 bytes", unhex("0000000e 0fff 0000 00000007 0000 00000000"), frame.ErrMalformed, 12},
	{"header beyond the frame", unhex("0000000e 0fff 0000 00000007 0002 00000000"), frame.ErrMalformed, 12},
	{"header beyond the limit", unhex("00000050 0fff 0000 00000007 000b"), frame.ErrTooLarge, 12},
	{"protocol id 1", apache("01 00"), frame.ErrUnsupported, 14},
	{"protocol id without an end", apache("ffffffff"), frame.ErrMalformed, 14},
	{"protocol id of compact before a binary message", apache("02 00"), frame.ErrMalformed, 18},
	{"HMAC", apache("00 01 02"), frame.ErrUnsupported, 16},
	{"gzip in THeader", apache("00 01 20"), frame.ErrUnsupported, 16},
	{"5 transforms", apache("00 05 01 01 01 01 01"), frame.ErrTooLarge, 15},
	{"4 G transforms", apache("00 ffffffff0f"), frame.ErrTooLarge, 15},
	{"zlib that is none", apache("00 01 01"), frame.ErrMalformed, 18},
	{"3 pairs", apache("00 00 01 03 01 61 00 01 62 00 01 63 00"), nil, 0},
	{"4 pairs", apache("00 00 01 04 01 61 00 01 62 00 01 63 00 01 64 00"), frame.ErrTooLarge, 17},
	{"4 pairs in two blocks", apache("00 00 01 02 01 61 00 01 62 00 02 02 01 63 00 01 64 00"), frame.ErrTooLarge, 25},
	{"4 G pairs", apache("00 00 01 ffffffff0f"), frame.ErrTooLarge, 17},
	{"pairs without an end", apache("00 00 01 03 01 61 00"), frame.ErrMalformed, 22},
	{"unknown info", apache("00 00 07 ffffffff"), nil, 0},
	{"value at the limit", apache("00 00 01 01 01 61 0a 30313233343536373839"), nil, 0},
	{"value beyond the limit", apache("00 00 01 01 01 61 0b 3031323334353637383940"), frame.ErrTooLarge, 20},
	{"value beyond the header", apache("00 00 01 01 01 61 0a 30"), frame.ErrMalformed, 21},
	{"wrapped, the lengths do not agree", unhex("00000034 0000002f 0fff 0000"), frame.ErrDialect, 4},
	{"wrapped something else", unhex("00000034 00000030 1000 0000"), frame.ErrDialect, 4},

	{"TTHeader", kitex("00 00"), nil, 0},
	{"protocol id 5", kitex("05 00"), frame.ErrUnsupported, 14},
	{"protocol id of a stream without the flag", kitex("10 00"), frame.ErrMalformed, 18},
	{"protocol id of a stream without the flag, with a kind", kitex("10 00 10 0001 0016 0001 31"), frame.ErrMalformed, 26},
	{"5 transforms in TTHeader", kitex("00 05 01 01 01 01 01"), frame.ErrTooLarge, 15},
	{"Snappy", kitex("00 01 03"), frame.ErrUnsupported, 16},
	{"gzip that is none", kitex("00 01 20"), frame.ErrMalformed, 18},
	{"unknown info in TTHeader", kitex("00 00 02"), frame.ErrMalformed, 16},
	{"4 pairs in TTHeader", kitex("00 00 01 0002 0000 0000 0000 0000 10 0002 0001 0000 0002 0000"), frame.ErrTooLarge, 28},
	{"65535 pairs", kitex("00 00 10 ffff"), frame.ErrTooLarge, 17},
	{"integers without an end", kitex("00 00 10 0002 0001 0000"), frame.ErrMalformed, 25},
	{"token beyond the limit", kitex("00 00 11 000b 3031323334353637383940"), frame.ErrTooLarge, 17},
	{"key beyond the header", kitex("00 00 01 0001 0009 41"), frame.ErrMalformed, 21},
	{"bare without a kind", kitex("20 00"), frame.ErrMalformed, 18},
	{"bare of kind 5", kitex("20 00 10 0001 0016 0001 35"), frame.ErrMalformed, 26},
	{"bare with a long method", kitex("20 00 10 0002 0016 0001 31 0009 0006 454545454545"), frame.ErrTooLarge, 34},
	{"bare", kitex("20 00 10 0002 0016 0001 31 0009 0005 4545454545"), nil, 0},
	{"TTHeader without a message", unhex("0000000e 1000 0000 00000007 0001 00000000"), frame.ErrMalformed, 18},
	{"TTHeader of the sequence id 0 without a message", unhex("0000000e 1000 0000 00000000 0001 00000000"), nil, 0},
	{"TTHeader with Protobuf without its own length", unhex("0000001b 1000 0000 00000007 0001 00000000 90010001 00000001 45 00000007"), frame.ErrMalformed, 18},
	{"TTHeader with another length", unhex("0000001f 1000 0000 00000007 0001 00000000 0000000c 90010001 00000001 45 00000007"), frame.ErrMalformed, 18},
	{"part of a stream with the protocol id of a call", unhex("0000000e 1000 0002 00000007 0001 00000000"), frame.ErrUnsupported, 18},
}

// Everything that is not allowed is refused, with the place and the kind of the mistake. What is just allowed is not.
func TestRefusals(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 3, len(tt.in)} {
				frames, used, err := drain(t, &small, tt.in, step, nil)
				if tt.err == nil {
					if err != nil || used != len(tt.in) || len(frames) != 1 {
						t.Fatalf("in steps of %d: %d of %d bytes, %v", step, used, len(tt.in), err)
					}
					continue
				}
				var e *frame.Error
				if !errors.As(err, &e) || !errors.Is(err, tt.err) || e.Offset != tt.offset || e.Inflated {
					t.Fatalf("in steps of %d: %d frames, %v, want %v at %d", step, len(frames), err, tt.err, tt.offset)
				}
			}
		})
	}
}

// compressed returns a frame whose message has been compressed with package compress/zlib or compress/gzip.
func compressed(t testing.TB, transform frame.Transform, plain []byte, change func(message []byte) []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = zlib.NewWriter(&b)
	if transform == frame.Gzip {
		g := gzip.NewWriter(&b)
		g.Name, g.Comment, g.Extra = "name", "comment", []byte("extra")
		w = g
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	message := b.Bytes()
	if change != nil {
		message = change(message)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(10+4+len(message)))
	out = append(out, 0x10, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 1, byte(transform), 0)
	return append(out, message...)
}

// Compressed messages are read if they are whole, and small enough when they are decompressed.
func TestDecompression(t *testing.T) {
	const limit = 1000
	call := func(size int) []byte { // the message of a call, of that size
		return append(unhex("80010001 00000001 45 00000007"), make([]byte, size-13)...)
	}
	for _, transform := range []frame.Transform{frame.Zlib, frame.Gzip} {
		for _, tt := range []struct {
			name     string
			plain    []byte
			change   func([]byte) []byte
			err      error
			inflated bool
		}{
			{"at the limit", call(limit), nil, nil, false},
			{"beyond the limit", call(limit + 1), nil, frame.ErrTooLarge, false},
			{"cut", call(100), func(m []byte) []byte { return m[:len(m)-1] }, frame.ErrMalformed, false},
			{"cut in the data", call(100), func(m []byte) []byte { return m[:len(m)-10] }, frame.ErrMalformed, false},
			{"cut in the header", call(100), func(m []byte) []byte { return m[:1] }, frame.ErrMalformed, false},
			{"with more behind", call(100), func(m []byte) []byte { return append(m, 0) }, frame.ErrMalformed, false},
			{"with a wrong checksum", call(100), func(m []byte) []byte { m[len(m)-1] ^= 1; return m }, frame.ErrMalformed, false},
			{"with a wrong header", call(100), func(m []byte) []byte { m[0] ^= 1; return m }, frame.ErrMalformed, false},
			{"with a preset dictionary", call(100), func(m []byte) []byte { m[0], m[1] = 0x78, 0x20; return m }, frame.ErrMalformed, false},
			{"with no message inside", []byte("hello"), nil, frame.ErrMalformed, true},
			{"empty", nil, nil, frame.ErrMalformed, true},
		} {
			t.Run(transform.String()+" "+tt.name, func(t *testing.T) {
				wire := compressed(t, transform, tt.plain, tt.change)
				c := frame.New(&frame.Options{MaxBody: limit})
				body, n, err := c.Decode(wire)
				if tt.err == nil {
					if err != nil || n != len(wire) || !bytes.Equal(body, tt.plain[13:]) {
						t.Fatalf("%d of %d bytes, %v: %x", n, len(wire), err, body)
					}
					return
				}
				var e *frame.Error
				if !errors.As(err, &e) || !errors.Is(err, tt.err) || e.Inflated != tt.inflated {
					t.Fatalf("%v, want %v", err, tt.err)
				}
				if where := strings.Contains(err.Error(), "decompressed message"); tt.inflated && !where {
					t.Errorf("%v does not say that the offset is one in the decompressed message", err)
				}
			})
		}
	}
}

// A frame that decompresses to a gigabyte costs no more memory than the limit, however often it is compressed.
func TestBomb(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 64<<20)
	for _, transform := range []frame.Transform{frame.Zlib, frame.Gzip} {
		wire := compressed(t, transform, zeros, nil)
		c := frame.New(&frame.Options{MaxBody: limit})
		if _, _, err := frame.New(&frame.Options{MaxBody: limit}).Decode(wire); !errors.Is(err, frame.ErrTooLarge) {
			t.Fatal(err) // and the pool has a decompressor now
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := c.Decode(wire)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, frame.ErrTooLarge) {
			t.Fatal(err)
		}
		// The buffer has doubled up to the limit; a decompressor, if the pool had none, is 50 KiB.
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 2*limit+200<<10 {
			t.Errorf("%v: %d bytes were allocated for a limit of %d", transform, grown, limit)
		}
	}
}

// A declared size costs nothing before its bytes arrive.
func TestDeclaredSizesCostNothing(t *testing.T) {
	big := &frame.Options{MaxFrame: -1, MaxBody: -1, MaxHeader: -1, MaxPairs: -1, MaxPair: -1, MaxMethod: -1, MaxDepth: -1}
	for name, in := range map[string][]byte{
		"length":         unhex("3fffffff 0fff 0000 00000007 ffff"),
		"unframed":       unhex("80010001 00000001 45 00000007 0f 0001 0b 3fffffff 00000001 41"),
		"string":         unhex("80010001 00000001 45 00000007 0b 0001 3fffff00"),
		"method":         unhex("80010001 3ffffff0"),
		"compact string": unhex("82 21 07 01 45 18 f0ffffff03"),
	} {
		const rounds = 100 // so many that what else allocates in the process does not matter
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			if _, n, err := frame.New(big).Decode(in); n >= 0 || err != nil {
				t.Fatal(name, n, err)
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 4<<10 {
			t.Errorf("%s: %d bytes were allocated", name, each)
		}
	}
}

// A message that arrives byte by byte is walked over once: bytes that have been passed are not looked at again, except for the envelope.
func TestByteByByte(t *testing.T) {
	const count, head = 1000, 13 + 8
	in := unhex("80010001 00000001 45 00000007 0f 0001 0b 000003e8")
	for range count {
		in = append(in, 0, 0, 0, 1, 'x')
	}
	in = append(in, 0)
	c := frame.New(nil)
	for at := range in {
		if _, n, err := c.Decode(in[:at]); n >= 0 || err != nil {
			t.Fatal(at, n, err)
		}
		if at > head+10 {
			in[at-10] = 0xFF
		}
	}
	if _, n, err := c.Decode(in); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
}
