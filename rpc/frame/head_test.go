package frame_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
	"pgregory.net/rapid"
)

// headOf returns what a decoded frame says before its body. Of a compressed message that is the header only.
func headOf(f *frame.Frame) string {
	g := *f
	g.Body = nil
	if len(g.Transforms) > 0 && g.Dialect.Protocol != frame.Bare && g.Kind != frame.Stream {
		g.Kind, g.Sequence, g.Method = 0, 0, nil
		g.Dialect = frame.Dialect{Framing: g.Dialect.Framing}
	}
	return show(&g)
}

// checkHead decodes the head of a frame that is the first in stream, and of which Decode says body, n bytes and f. The bytes arrive as they are
// asked for.
func checkHead(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, o *frame.Options, stream []byte, n int, f *frame.Frame,
) {
	t.Helper()
	c := frame.New(o)
	for have := 0; ; {
		head, size, err := c.DecodeHead(stream[:have:have])
		switch {
		case err != nil || head == 0 || have-head > n:
			t.Fatalf("with %d of %d bytes DecodeHead returns %d, %d, %v", have, n, head, size, err)
		case head < 0:
			have -= head
			continue
		case size != n || head > have || have > max(head, 4+4+10+6):
			t.Fatalf("with %d of %d bytes DecodeHead returns %d, %d, %v", have, n, head, size, err)
		}
		got := c.Frame()
		if headOf(got) != headOf(f) || len(got.Body) != have-head {
			t.Fatalf("the head says\n%s\nand the frame\n%s\nwith %d bytes of %d, and %d of the body", headOf(got), headOf(f), have, n, len(got.Body))
		}
		if len(f.Transforms) == 0 && len(f.Body) != n-head {
			t.Fatalf("a head of %d bytes before a body of %d in a frame of %d", head, len(f.Body), n)
		}
		return
	}
}

// The head of a frame says what the frame says. DecodeHead does not ask for bytes of the body.
func TestDecodeHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wire, err := drawFrame(t).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := frame.New(nil)
		_, n, err := c.Decode(wire)
		if n != len(wire) || err != nil {
			t.Fatal(n, err)
		}
		if c.Frame().Dialect.Framing == frame.Unframed {
			_, _, err := frame.New(nil).DecodeHead(wire)
			if !errors.Is(err, frame.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		checkHead(t, nil, append(wire, wire...), n, c.Frame())
	})
}

// What is wrong before a body is refused with the same error as by Decode, and every later call repeats it. What is compressed is not looked at.
func TestDecodeHeadRefusals(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			want, offset := tt.err, tt.offset
			switch {
			case tt.in[0]&0x80 != 0 && !errors.Is(want, frame.ErrDialect):
				want, offset = frame.ErrUnsupported, 0 // unframed
			case strings.HasSuffix(tt.name, "that is none"):
				want = nil
			}
			c := frame.New(&small)
			head, size, err := c.DecodeHead(tt.in)
			if want == nil {
				if err != nil || head <= 0 || size != len(tt.in) {
					t.Fatalf("%d, %d of %d bytes, %v", head, size, len(tt.in), err)
				}
				return
			}
			e := new(frame.Error)
			if !errors.As(err, &e) || !errors.Is(err, want) || e.Offset != offset {
				t.Fatalf("%d, %d of %d bytes, %v; want %v at %d", head, size, len(tt.in), err, want, offset)
			}
			if _, _, again := c.DecodeHead(tt.in); again != err { //nolint:errorlint // it has to be the same error
				t.Fatalf("then came %v", again)
			}
		})
	}
}

// The head of a frame of which only the beginning can be held: the size says how much follows.
func TestDecodeHeadOfLargeFrame(t *testing.T) {
	for _, d := range dialects {
		if d.Framing == frame.Unframed {
			continue
		}
		f := &frame.Frame{Dialect: d, Kind: kinds(d)[0], Sequence: 7, Method: []byte("Echo")}
		begin, err := frame.Prefix(f, 100<<20)
		if err != nil {
			t.Fatal(err)
		}
		c := frame.New(&frame.Options{MaxFrame: -1})
		head, size, err := c.DecodeHead(append(begin, 1, 2, 3))
		if head != len(begin) || size != len(begin)+100<<20 || err != nil {
			t.Errorf("%v: %d, %d, %v; want %d", d, head, size, err, len(begin))
		}
		if _, _, err := frame.New(nil).DecodeHead(begin); !errors.Is(err, frame.ErrTooLarge) {
			t.Errorf("%v: %v", d, err)
		}
		limits := &frame.Options{MaxFrame: -1, MaxBody: 100<<20 - 1}
		if _, _, err := frame.New(limits).DecodeHead(begin); !errors.Is(err, frame.ErrTooLarge) {
			t.Errorf("%v, with MaxBody: %v", d, err)
		}
	}
}

// DecodeHead allocates nothing, once the lists of the frame have grown.
func TestDecodeHeadAllocatesNothing(t *testing.T) {
	for _, d := range dialects {
		if d.Framing == frame.Unframed {
			continue
		}
		wire, err := sample(rand.New(rand.NewPCG(5, 6)), d).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := frame.New(nil)
		if allocs := testing.AllocsPerRun(100, func() {
			if head, size, err := c.DecodeHead(wire); head <= 0 || size != len(wire) || err != nil {
				t.Fatal(head, size, err)
			}
		}); allocs != 0 {
			t.Errorf("%v: %v allocations", d, allocs)
		}
	}
}

// BenchmarkDecodeHead reads the head of a frame with 1 KiB of body, of which nothing has arrived, and two to four pairs.
func BenchmarkDecodeHead(b *testing.B) {
	f := sample(rand.New(rand.NewPCG(7, 8)), frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare})
	begin, err := frame.Prefix(f, 1<<10)
	if err != nil {
		b.Fatal(err)
	}
	c := frame.New(nil)
	b.ReportAllocs()
	for b.Loop() {
		if head, _, err := c.DecodeHead(begin); head != len(begin) || err != nil {
			b.Fatal(head, err)
		}
	}
}
