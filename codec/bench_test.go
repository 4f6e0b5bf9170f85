package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// text is a message like those of a market data feed.
func text(size int) []byte {
	var out strings.Builder
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(&out, `{"id":%d,"symbol":"EUR%d","bid":%d.%04d},`, i*7919%1000003, i%13, i*31%97, i*17%9973)
	}
	return []byte(out.String()[:size])
}

// frame915 is a frame of 915 bytes: its length, a command, an id, and the rest.
func frame915() []byte {
	frame := make([]byte, 915)
	binary.BigEndian.PutUint32(frame, 915)
	frame[4] = 2
	return frame
}

func benchmarked() []struct {
	name string
	c    codec.Framer
	msg  []byte
} {
	return []struct {
		name string
		c    codec.Framer
		msg  []byte
	}{
		{"length", codec.Length{}, make([]byte, 911)},
		{"itself", codec.Length{Adjust: -4}, make([]byte, 911)},
		{"whole", codec.Length{Adjust: -4, Whole: true}, frame915()},
		{"little", codec.Length{Bytes: 2, Little: true}, make([]byte, 913)},
		{"varint", codec.Length{Varint: true}, make([]byte, 913)},
		{"line", codec.Line{}, bytes.Repeat([]byte("x"), 914)},
		{"delimiter", codec.Delimiter{End: "\r\n\r\n"}, bytes.Repeat([]byte("x"), 911)},
		{"fixed", codec.Fixed{Size: 915}, make([]byte, 915)},
		{"raw", codec.Raw{}, make([]byte, 915)},
		{"deflate", codec.NewCompression(nil).New(codec.Length{}), text(915)},
		{"gzip", codec.NewCompression(&codec.CompressionOptions{Format: codec.Gzip}).New(codec.Length{}), text(915)},
		{"plain", codec.NewCompression(&codec.CompressionOptions{Threshold: 1000}).New(codec.Length{}), text(915)},
	}
}

// Decoding frames of about 915 bytes.
func BenchmarkDecode(b *testing.B) {
	for _, bb := range benchmarked() {
		b.Run(bb.name, func(b *testing.B) {
			frame, err := bb.c.AppendEncode(nil, bb.msg)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, n, err := bb.c.Decode(frame); n != len(frame) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// Encoding the same, which includes copying the message.
func BenchmarkAppendEncode(b *testing.B) {
	for _, bb := range benchmarked() {
		b.Run(bb.name, func(b *testing.B) {
			var buf []byte
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = bb.c.AppendEncode(buf[:0], bb.msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The cost of the copy alone, for comparison.
func BenchmarkCopy(b *testing.B) {
	var buf []byte
	msg := make([]byte, 915)
	for b.Loop() {
		buf = append(buf[:0], msg...)
	}
}

// Compressing without pools, to show what pools save.
func BenchmarkCompressionWithoutPool(b *testing.B) {
	msg := text(915)
	b.ReportAllocs()
	for b.Loop() {
		c := codec.NewCompression(nil).New(codec.Length{})
		frame, err := c.AppendEncode(nil, msg)
		if err != nil {
			b.Fatal(err)
		}
		if _, n, err := c.Decode(frame); n <= 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// The cost of each byte if a peer sends a message of the largest size byte by byte.
func BenchmarkDelimiterByteByByte(b *testing.B) {
	for _, bb := range []struct{ name, end, fill string }{{"newline", "\n", "x"}, {"crlfcrlf", "\r\n\r\n", "\r\n\r"}} {
		b.Run(bb.name, func(b *testing.B) {
			c := codec.Delimiter{End: bb.end}
			in := bytes.Repeat([]byte(bb.fill), codec.DefaultMax/len(bb.fill))
			size := 0
			for b.Loop() {
				if size++; size > len(in) {
					size = 1
				}
				if _, n, err := c.Decode(in[:size]); n >= 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// The cost of the worst frame: 64 KiB of blocks that contain nothing but tables.
func BenchmarkDecompressTables(b *testing.B) {
	const blocks = 1400
	c := codec.NewCompression(nil).New(codec.Raw{Max: -1})
	in := append([]byte{1}, tables(blocks)...)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if msg, _, err := c.Decode(in); len(msg) != 0 || err != nil {
			b.Fatal(len(msg), err)
		}
	}
}
