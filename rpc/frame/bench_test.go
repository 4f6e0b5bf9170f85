package frame_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
)

// benchmarked are dialects with a body of 1 KiB.
func benchmarked(b *testing.B, run func(b *testing.B, f *frame.Frame)) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, d := range dialects {
		if d.Wrapped && d.Protocol != frame.Protobuf || d.Protocol == frame.ThriftStruct || d.Protocol == frame.ProtobufStruct {
			continue
		}
		f := sample(r, d)
		f.Body = make([]byte, 1<<10)
		switch d.Protocol {
		case frame.Binary: // a struct with one string
			copy(f.Body, "\x0b\x00\x01\x00\x00\x03\xf8")
		case frame.Compact:
			copy(f.Body, "\x18\xfc\x07")
		}
		b.Run(d.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(f.Body)))
			run(b, f)
		})
	}
	f := sample(r, frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary})
	f.Transforms = []frame.Transform{frame.Zlib}
	f.Body = make([]byte, 1<<10)
	b.Run("THeader binary, zlib", func(b *testing.B) {
		b.ReportAllocs()
		run(b, f)
	})
}

// BenchmarkDecode reads a frame with 1 KiB of body and, if the dialect has a header, two to four pairs.
func BenchmarkDecode(b *testing.B) {
	benchmarked(b, func(b *testing.B, f *frame.Frame) {
		wire, err := f.Append(nil)
		if err != nil {
			b.Fatal(err)
		}
		c := frame.New(nil)
		for b.Loop() {
			if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}

// BenchmarkAppend writes the same frames.
func BenchmarkAppend(b *testing.B) {
	benchmarked(b, func(b *testing.B, f *frame.Frame) {
		buf := make([]byte, 0, 4<<10)
		for b.Loop() {
			if _, err := f.Append(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWalk reads an unframed call with 100 structs of two fields, which has to be walked over to find its end.
func BenchmarkWalk(b *testing.B) {
	for name, wire := range map[string][]byte{
		"binary":  unhex("80010001 00000004 4563686f 00000007 0f 0001 0c 00000064"),
		"compact": unhex("82 21 07 04 4563686f 19 fc 64"),
	} {
		for range 100 {
			if name == "binary" {
				wire = append(wire, unhex("0b 0001 00000004 6e616d65 0a 0002 0000000000000001 00")...)
			} else {
				wire = append(wire, unhex("18 04 6e616d65 16 02 00")...)
			}
		}
		wire = append(wire, 0)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(wire)))
			c := frame.New(nil)
			for b.Loop() {
				if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
