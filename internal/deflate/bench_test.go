package deflate_test

import (
	"bytes"
	"compress/flate"
	"io"
	"testing"

	"github.com/sluice-push/sluice/internal/deflate"
)

// loads are the messages of the benchmarks: different messages of the same kind, so that a context helps as much as in practice.
func loads() map[string][][]byte {
	r := newRand(30)
	tick1 := make([][]byte, 256)
	kilo, large := make([][]byte, 64), make([][]byte, 8)
	for i := range tick1 {
		tick1[i] = tick(r, i)
	}
	for i := range kilo {
		kilo[i] = ticks(r, 1<<10)
	}
	for i := range large {
		large[i] = ticks(r, 64<<10)
	}
	return map[string][][]byte{"tick": tick1, "1KiB": kilo, "64KiB": large}
}

// BenchmarkCompress compresses messages at level 1, with and without context. The comparison is compress/flate as it is used for messages: a
// pooled writer for each message, or one writer for the connection. ratio is the compressed size of a byte.
func BenchmarkCompress(b *testing.B) {
	for size, msgs := range loads() {
		for _, context := range []bool{false, true} {
			b.Run(name(size, "context", context, "ours"), func(b *testing.B) {
				e := deflate.NewEncoder(1, 15)
				var out []byte
				measure(b, msgs, func(msg []byte) int {
					if !context {
						e.Reset()
					}
					out = e.Append(out[:0], msg)
					return len(out)
				})
				b.ReportMetric(float64(e.Memory()), "memory-B")
			})
			b.Run(name(size, "context", context, "std"), func(b *testing.B) {
				var out bytes.Buffer
				w, err := flate.NewWriter(&out, 1)
				if err != nil {
					b.Fatal(err)
				}
				measure(b, msgs, func(msg []byte) int {
					out.Reset()
					if !context {
						w.Reset(&out)
					}
					if _, err := w.Write(msg); err != nil {
						b.Fatal(err)
					}
					if err := w.Flush(); err != nil {
						b.Fatal(err)
					}
					return out.Len() - 4
				})
			})
		}
	}
}

// measure calls compress for each message in turn.
func measure(b *testing.B, msgs [][]byte, compress func(msg []byte) int) {
	b.SetBytes(int64(len(msgs[0])))
	b.ReportAllocs()
	before, after, i := 0, 0, 0
	for b.Loop() {
		msg := msgs[i%len(msgs)]
		before += len(msg)
		after += compress(msg)
		i++
	}
	b.ReportMetric(float64(after)/float64(before), "ratio")
}

// BenchmarkInflate inflates the output of compress/flate at level 6, with and without context, with our decoder and with pooled readers.
func BenchmarkInflate(b *testing.B) {
	for size, msgs := range loads() {
		for _, context := range []bool{false, true} {
			ins, windows := make([][]byte, len(msgs)), make([][]byte, len(msgs))
			w := deflate.NewWindow(15)
			for i, msg := range msgs {
				if context {
					windows[i] = bytes.Clone(w.Bytes())
				}
				ins[i] = squeeze(b, 6, msg, windows[i])
				w.Append(msg)
			}
			b.Run(name(size, "context", context, "ours"), func(b *testing.B) {
				var d deflate.Decoder
				var out []byte
				b.SetBytes(int64(len(msgs[0])))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					var err error
					if out, err = d.Append(out[:0], ins[i], windows[i], 1<<20); err != nil {
						b.Fatal(err)
					}
					i = (i + 1) % len(msgs)
				}
			})
			b.Run(name(size, "context", context, "std"), func(b *testing.B) {
				from, end := bytes.NewReader(nil), []byte("\x00\x00\xff\xff\x01\x00\x00\xff\xff")
				r := flate.NewReader(from)
				in, out := make([]byte, 0, 64<<10), make([]byte, 1<<20)
				b.SetBytes(int64(len(msgs[0])))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					in = append(append(in[:0], ins[i]...), end...)
					from.Reset(in)
					if err := r.(flate.Resetter).Reset(from, windows[i]); err != nil {
						b.Fatal(err)
					}
					n := 0
					for {
						k, err := r.Read(out[n:])
						n += k
						if err == io.EOF { //nolint:errorlint // a reader returns it as it is
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
					i = (i + 1) % len(msgs)
				}
			})
		}
	}
}

// BenchmarkHeaders inflates blocks that contain only the description of codes, the most expensive input.
func BenchmarkHeaders(b *testing.B) {
	in := squeeze(b, 9, kinds["words"](newRand(31), 300), nil)
	var d deflate.Decoder
	out := make([]byte, 0, 1<<10)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := d.Append(out, in, nil, 1<<10); err != nil {
			b.Fatal(err)
		}
	}
}
