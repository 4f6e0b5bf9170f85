package codec_test

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// Codecs allocate nothing for a message that is not compressed.
func TestNoAllocation(t *testing.T) {
	for _, bb := range benchmarked() {
		if _, ok := bb.c.(*codec.Compressed); ok {
			continue
		}
		t.Run(bb.name, func(t *testing.T) {
			buf := make([]byte, 0, 2000)
			if allocs := testing.AllocsPerRun(100, func() {
				frame, err := bb.c.AppendEncode(buf, bb.msg)
				if err != nil {
					t.Fatal(err)
				}
				if _, n, err := bb.c.Decode(frame); n != len(frame) || err != nil {
					t.Fatal(n, err)
				}
			}); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

// Compressors and buffers are used again: a compressor has more than half a megabyte, and the buffer is larger than the message. The bounds are
// that high because a sync.Pool drops some of its items, a quarter under -race.
func TestCompressionReuses(t *testing.T) {
	const rounds, size = 400, 100 << 10              // so many that chance does not matter
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which empties pools
	c := codec.NewCompression(&codec.CompressionOptions{Max: size}).New(codec.Length{})
	msg := bytes.Repeat([]byte("0123456789"), size/10)
	frame, err := c.AppendEncode(nil, msg)
	if err != nil {
		t.Fatal(err)
	}
	var start, encoded, decoded runtime.MemStats
	runtime.ReadMemStats(&start)
	for range rounds {
		if frame, err = c.AppendEncode(frame[:0], msg); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&encoded)
	for range rounds {
		if got, _, err := c.Decode(frame); err != nil || len(got) != len(msg) {
			t.Fatal(len(got), err)
		}
	}
	runtime.ReadMemStats(&decoded)
	if each := (encoded.TotalAlloc - start.TotalAlloc) / rounds; each > 600<<10 {
		t.Errorf("encoding allocates %d bytes", each)
	}
	if each := (decoded.TotalAlloc - encoded.TotalAlloc) / rounds; each > size {
		t.Errorf("decoding allocates %d bytes", each)
	}
}
