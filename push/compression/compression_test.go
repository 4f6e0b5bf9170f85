package compression_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/compression"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gunzip inflates a whole gzip stream, and checks its length and checksum.
func gunzip(t testing.TB, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	out, err := io.ReadAll(r)
	must(t, err)
	return out
}

// quote is a publication as clients get it, with other numbers each time.
func quote(i int) string {
	return fmt.Sprintf(`{"push":{"channel":"quotes:AAPL","pub":{"data":{"symbol":"AAPL","bid":%d.%02d,"ask":%d.%02d,"time":%d},"offset":%d}}}`+"\n",
		180+i%7, i*37%100, 181+i%7, i*53%100, 1_700_000_000_000+int64(i)*137, i)
}

// TestRoundTrip: what is compressed is inflated to the same, by other code, whatever it is.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 8).Draw(t, "parts")
		s := compression.NewStream()
		var body, whole []byte
		for _, p := range parts {
			r, err := gzip.NewReader(bytes.NewReader(compression.AppendGzip([]byte("before"), p)[len("before"):]))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, p) {
				t.Fatalf("%x is inflated to %x, %v", p, got, err)
			}
			deflated := append(compression.AppendDeflated(nil, p), "\x00\x00\xff\xff\x01\x00\x00\xff\xff"...)
			if got, err := io.ReadAll(flate.NewReader(bytes.NewReader(deflated))); err != nil || !bytes.Equal(got, p) {
				t.Fatalf("%x is inflated to %x, %v", p, got, err)
			}
			body, whole = s.Append(body, p), append(whole, p...)
		}
		r, err := gzip.NewReader(bytes.NewReader(s.AppendEnd(body)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, whole) {
			t.Fatalf("%x is inflated to %x, %v", whole, got, err)
		}
	})
}

// TestStreamFlushes: each part can be inflated when it has come, and nothing of it waits for the next one.
func TestStreamFlushes(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = in.Close() }()
	next := make(chan []byte)
	written := make(chan error, 1)
	go func() {
		for part := range next {
			if _, err := out.Write(part); err != nil {
				written <- err
				return
			}
		}
		written <- out.Close()
	}()
	s := compression.NewStream()
	next <- s.Append(nil, []byte(quote(0)))
	r, err := gzip.NewReader(in)
	must(t, err)
	for i := range 50 {
		got := make([]byte, len(quote(i)))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != quote(i) {
			t.Fatalf("part %d is inflated to %q, %v", i, got, err)
		}
		if i < 49 {
			next <- s.Append(nil, []byte(quote(i+1)))
		}
	}
	next <- s.AppendEnd(nil)
	close(next)
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	must(t, <-written)
}

// TestStreamHasContext: a part that resembles earlier ones is much smaller than alone.
func TestStreamHasContext(t *testing.T) {
	s := compression.NewStream()
	var first, later, alone, plain int
	for i := range 100 {
		n := len(s.Append(nil, []byte(quote(i))))
		if i == 0 {
			first = n
			continue
		}
		later += n
		alone += len(compression.AppendGzip(nil, []byte(quote(i))))
		plain += len(quote(i))
	}
	if first < 100 || later*2 > alone || later*2 > plain {
		t.Errorf("the first part has %d bytes, 99 more %d, alone %d, of %d", first, later, alone, plain)
	}
}

// TestShrink: a message is compressed in its place if that makes it smaller, and left alone otherwise.
func TestShrink(t *testing.T) {
	noise := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for name, tt := range map[string]struct {
		message []byte
		want    bool
	}{
		"empty": {nil, false},
		"short": {bytes.Repeat([]byte{'x'}, compression.Threshold-1), false},
		"long":  {bytes.Repeat([]byte{'x'}, compression.Threshold), true},
		"large": {bytes.Repeat([]byte(quote(1)), 1000), true},
		"noise": {noise, false},
	} {
		out, done := compression.Shrink(append([]byte("before"), tt.message...), len("before"), compression.AppendGzip)
		if string(out[:6]) != "before" || done != tt.want {
			t.Errorf("%s: %t, %.20q", name, done, out)
			continue
		}
		if done {
			out = append(out[:6], gunzip(t, out[6:])...)
		}
		if !bytes.Equal(out[6:], tt.message) {
			t.Errorf("%s: became something else", name)
		}
	}
}

// TestBombs: no more is inflated than is allowed, and nothing is read beyond that.
func TestBombs(t *testing.T) {
	const most = 1000
	bomb := compression.AppendGzip(nil, make([]byte, 100<<20))
	fits := compression.AppendGzip(nil, make([]byte, most))
	over := compression.AppendGzip(nil, make([]byte, most+1))
	twice := append(bytes.Clone(fits), over...)
	if got, err := compression.ReadAll(bytes.NewReader(fits), most); err != nil || len(got) != most {
		t.Errorf("what fits: %d bytes, %v", len(got), err)
	}
	for name, packed := range map[string][]byte{"bomb": bomb, "one byte too many": over, "two streams": twice} {
		in := bytes.NewReader(packed)
		got, err := compression.ReadAll(in, most)
		if !errors.Is(err, compression.ErrTooLarge) || len(got) != most {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if name == "bomb" && len(packed)-in.Len() > 8<<10 {
			t.Errorf("%d of %d bytes of the bomb were read", len(packed)-in.Len(), len(packed))
		}
	}
	d := compression.NewDecompressor(most)
	for range 2 { // a decompressor is used again
		must(t, d.Reset(bytes.NewReader(bomb)))
		if n, err := io.Copy(io.Discard, d); !errors.Is(err, compression.ErrTooLarge) || n != most {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := io.Copy(io.Discard, d); !errors.Is(err, compression.ErrTooLarge) || n != 0 { // what connect-go does to learn the size
			t.Errorf("%d more bytes, %v", n, err)
		}
		must(t, d.Close())
	}
}

// TestCorrupt: what is no gzip stream, or a damaged one, is an error.
func TestCorrupt(t *testing.T) {
	good := compression.AppendGzip(nil, []byte(quote(1)))
	damaged := bytes.Clone(good)
	damaged[len(damaged)-5]++ // the checksum
	for name, packed := range map[string][]byte{"nothing": nil, "text": []byte("{}"), "half": good[:len(good)/2], "damaged": damaged} {
		if got, err := compression.ReadAll(bytes.NewReader(packed), 1000); err == nil || errors.Is(err, compression.ErrTooLarge) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCompressor(t *testing.T) {
	var c compression.Compressor
	for _, text := range []string{quote(1), "", strings.Repeat(quote(2), 1000), quote(3)} {
		var out bytes.Buffer
		c.Reset(&out)
		for part := range strings.SplitAfterSeq(text, ",") {
			_, err := c.Write([]byte(part))
			must(t, err)
		}
		must(t, c.Close())
		if got := gunzip(t, out.Bytes()); string(got) != text {
			t.Errorf("%.20q is inflated to %.20q", text, got)
		}
	}
}

func TestAccepts(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "gzip, deflate, br, zstd": true, "br;q=1.0, GZIP;q=0.8": true, "deflate, gzip": true, "gzip;q=1": true, "gzip ; q = 0.5": true,
		"": false, "*": false, "identity": false, "br": false, "gzip;q=0": false, "gzip;q=0.0": false, "gzip;q=x": false, "x-gzip2": false,
	} {
		if got := compression.Accepts([]string{"br", value}); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
	if compression.Accepts(nil) {
		t.Error("no header is taken for a wish")
	}
}

// BenchmarkStream is what a publication costs in the body of a response, with the memory of a client, and BenchmarkAlone what it costs once for all
// clients.
func BenchmarkStream(b *testing.B) {
	s := compression.NewStream()
	var out []byte
	bytes, i := 0, 0
	for b.Loop() {
		out = s.Append(out[:0], []byte(quote(i)))
		bytes += len(out)
		i++
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "sent/op")
	b.ReportMetric(float64(len(quote(1))), "plain/op")
}

func BenchmarkAlone(b *testing.B) {
	for name, compress := range map[string]func(dst, message []byte) []byte{"gzip": compression.AppendGzip, "deflate": compression.AppendDeflated} {
		for _, count := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				var out []byte
				bytes, i := 0, 0
				for b.Loop() {
					message := make([]byte, 0, count*256)
					for range count {
						message = append(message, quote(i)...)
						i++
					}
					out = compress(out[:0], message)
					bytes += len(out)
				}
				b.ReportMetric(float64(bytes)/float64(i), "sent/quote")
			})
		}
	}
}

// BenchmarkStandard is BenchmarkStream with compress/gzip, whose writer keeps its context and is flushed.
func BenchmarkStandard(b *testing.B) {
	for _, level := range []int{gzip.BestSpeed, gzip.DefaultCompression} {
		b.Run(fmt.Sprint("level ", level), func(b *testing.B) {
			var out bytes.Buffer
			w, err := gzip.NewWriterLevel(&out, level)
			must(b, err)
			sent, i := 0, 0
			for b.Loop() {
				out.Reset()
				_, _ = w.Write([]byte(quote(i)))
				_ = w.Flush()
				sent += out.Len()
				i++
			}
			b.ReportMetric(float64(sent)/float64(i), "sent/op")
		})
	}
}
