package codec_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzDecode checks that the result does not depend on the pieces in which the bytes arrive. No message may be lost by waiting for the requested
// bytes, and an error must not need fewer bytes only because they arrived together.
func FuzzDecode(f *testing.F) {
	for i, tt := range tried {
		f.Add(uint8(i), uint8(2), []byte("\x00\x03abc\x03\x00abc\nline\r\n\x00\x00\x00\x02hi--"))
		f.Add(uint8(i), uint8(3), binary.BigEndian.AppendUint64(nil, 1<<63))
		f.Add(uint8(i), uint8(4), bytes.Repeat([]byte{0x80}, 12))
		stream, _ := tt.make().AppendEncode(nil, bytes.Repeat([]byte("hello "), 50))
		stream, _ = tt.make().AppendEncode(stream, []byte("hello"))
		f.Add(uint8(i), uint8(5), stream)
	}
	f.Fuzz(func(t *testing.T, which, step uint8, in []byte) {
		in = in[:min(len(in), 4<<10)] // byte by byte is quadratic here, since every call is checked twice
		c := tried[int(which)%len(tried)].make
		whole, used, err := drain(t, c(), in, len(in)+1, nil)
		for _, step := range []int{1, 1 + int(step)} {
			pieces, used2, err2 := drain(t, c(), in, step, nil)
			if used != used2 || (err == nil) != (err2 == nil) || !slices.EqualFunc(whole, pieces, bytes.Equal) {
				t.Fatalf("whole: %q, %d bytes, %v; in steps of %d: %q, %d, %v", whole, used, err, step, pieces, used2, err2)
			}
		}
	})
}

// FuzzEncode checks that Decode restores an encoded message.
func FuzzEncode(f *testing.F) {
	for i := range tried {
		f.Add(uint8(i), []byte("hello"), []byte{})
		f.Add(uint8(i), []byte("a\r"), bytes.Repeat([]byte("long "), 300))
	}
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte) {
		suite(t, tried[int(which)%len(tried)].make, a[:min(len(a), 2<<10)], b[:min(len(b), 2<<10)])
	})
}

// FuzzInflate checks the size of decompressed data against the limit, without framing: the rest of in is one payload.
func FuzzInflate(f *testing.F) {
	for i, tt := range payloads() {
		f.Add(uint8(i), tt)
	}
	f.Fuzz(func(t *testing.T, limit uint8, in []byte) {
		if len(in) == 0 {
			return // Raw, in which it lies, has no empty messages
		}
		msg, err := unpack(int(limit)+1, in)
		if err == nil && (msg == nil || len(msg) > int(limit)+1) {
			t.Fatalf("%d bytes, at most %d are allowed", len(msg), int(limit)+1)
		}
	})
}
