package codec_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// random returns bytes that do not shrink.
func random(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// edges are the lengths at which something may overflow or be exceeded.
var edges = []uint64{
	0, 1, 2, 3, 4, 5, 39, 40, 41, 127, 128, 255, 256, 299, 300, 301, 1<<14 - 1, 1 << 15, math.MaxUint16, 1 << 16, 1<<16 + 1,
	math.MaxInt32, 1 << 31, math.MaxUint32, 1 << 32, math.MaxInt64 - 8, math.MaxInt64, 1 << 63, math.MaxUint64 - 3, math.MaxUint64,
}

// fragments are delimiters, varints and compressed data, whole and in part.
var fragments = []string{
	"\n", "\r", "\r\n", "\r\n\r", "\r\n\r\n", "\x00", "a", "ab", "aba", "-", "--------------------------------------", "hello",
	"\x80", "\x80\x80\x80\x80\x80\x80\x80\x80\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
	"\x01\x00", "\x00\x00\xff\xff", "\x1f\x8b\x08\x1f", "\x01", "\x02",
}

// hostile appends a frame of a malicious peer.
func hostile(dst []byte, r *rand.Rand) []byte {
	switch r.Uint32N(4) {
	case 0: // a length at an edge, or near it, with something before and behind it
		dst = append(dst, "\x02abc"[:r.Uint32N(5)]...)
		length := edges[r.IntN(len(edges))] + uint64(r.Uint32N(3)) - 1
		switch r.Uint32N(8) {
		case 0:
			dst = append(dst, byte(length))
		case 1:
			dst = binary.BigEndian.AppendUint16(dst, uint16(length))
		case 2:
			dst = binary.LittleEndian.AppendUint16(dst, uint16(length))
		case 3:
			dst = binary.BigEndian.AppendUint32(dst, uint32(length))
		case 4:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
		case 5:
			dst = binary.BigEndian.AppendUint64(dst, length)
		case 6:
			dst = binary.LittleEndian.AppendUint64(dst, length)
		default:
			dst = binary.AppendUvarint(dst, length)
		}
		dst = append(dst, filler[:r.Uint32N(uint32(len(filler)))]...)
	case 1, 2: // pieces of delimiters, varints and so on
		for range r.Uint32N(12) {
			dst = append(dst, fragments[r.IntN(len(fragments))]...)
		}
	default: // anything
		for range r.Uint32N(4) {
			dst = binary.LittleEndian.AppendUint64(dst, r.Uint64())
		}
	}
	return dst[:len(dst)-int(r.Uint32N(uint32(min(len(dst), 3)+1)))]
}

// filler is long enough to exceed the smaller limits.
var filler = bytes.Repeat([]byte("."), 64)

// A million frames of malicious peers cause no panic, and Decode allocates no memory for the lengths that they declare: one call may only
// allocate an error. Each fourth frame also arrives in two parts, which must not make a difference.
func TestHostileFrames(t *testing.T) {
	const frames, batch, most = 1_000_000, 10_000, 500
	r := rand.New(rand.NewPCG(2026, 11))
	var in []byte
	var before, after runtime.MemStats
	for done := 0; done < frames; {
		tt := tried[done/batch%len(tried)]
		c := tt.make()
		_, _, _ = c.Decode(hostile(in[:0], r)) // what it allocates once
		runtime.ReadMemStats(&before)
		for range batch {
			in = hostile(in[:0], r)
			cut := len(in)
			if done++; done%4 == 0 {
				cut = r.IntN(len(in) + 1)
			}
			twice(t, c, tt.name, in, cut)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / batch; each > most {
			t.Fatalf("%s: %d bytes are allocated for a frame", tt.name, each)
		}
	}
}

// twice decodes the first bytes of in, then all of in, and checks that the two results agree.
func twice(t *testing.T, c codec.Framer, name string, in []byte, cut int) {
	first, firstErr := 0, error(nil)
	if cut < len(in) {
		_, first, firstErr = c.Decode(in[:cut:cut])
	}
	msg, n, err := c.Decode(in[:len(in):len(in)])
	switch {
	case (msg != nil) != (n > 0), n > len(in), first > cut:
		t.Fatalf("%s: %q: %d bytes used of %q", name, msg, n, in)
	case first > 0 && (err != nil || n != first):
		t.Fatalf("%s: %q gives %d bytes, with %q behind it %d, %v", name, in[:cut], first, in[cut:], n, err)
	case firstErr != nil && err == nil:
		t.Fatalf("%s: %q gives %v, with %q behind it %d", name, in[:cut], firstErr, in[cut:], n)
	case first < 0 && len(in)-cut < -first && (n > 0 || err != nil):
		t.Fatalf("%s: %q asks for %d, with %q behind it there is %d, %v", name, in[:cut], first, in[cut:], n, err)
	}
}

// Decompression bombs, and valid frames with a byte changed or cut off, cost no more memory than the limit. Frames that are made for that also
// cost the tables of the decompressor.
func TestHostileCompression(t *testing.T) {
	const frames, limit = 4_000, 8 << 10
	r := rand.New(rand.NewPCG(2026, 12))
	text := bytes.Repeat([]byte("what is said often enough is compressed well. "), 100)
	seeds := slices.Concat(payloads(), [][]byte{payload(1, text), payload(2, text), header(text), append([]byte{1}, tables(20)...)})
	c := codec.NewCompression(&codec.CompressionOptions{Max: limit}).New(codec.Raw{Max: -1})
	_, _, _ = c.Decode(payload(1, text))
	var in []byte
	var before, after runtime.MemStats
	for range frames {
		in = append(in[:0], seeds[r.IntN(len(seeds))]...)
		for range r.Uint32N(4) {
			in[r.IntN(len(in))] ^= 1 << r.Uint32N(8)
		}
		in = in[:max(1, len(in)-max(0, int(r.Uint32N(8))-4))]
		runtime.ReadMemStats(&before)
		msg, n, err := c.Decode(in)
		runtime.ReadMemStats(&after)
		if err == nil && (n != len(in) || msg == nil || len(msg) > limit) {
			t.Fatalf("%q gives %d bytes of message, %d used", in, len(msg), n)
		}
		// The second summand is for tables, the third for a decompressor, should the pool have lost its own.
		if cost := after.TotalAlloc - before.TotalAlloc; cost > 2*limit+uint64(1+len(in)/46)*(40<<10)+(64<<10) {
			t.Fatalf("%d bytes allocated %d: %v", len(in), cost, err)
		}
	}
}
