package deflate_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/internal/deflate"
)

// grownBy is the bound on growth that Append promises.
func grownBy(n int) int { return 6 + 5*(n/(12<<10)) }

// checkMessage compresses a message, and inflates it with both decoders and the smallest sufficient window.
func checkMessage(t *testing.T, e *deflate.Encoder, msg, before []byte, bits int) []byte {
	t.Helper()
	in := e.Append(nil, msg)
	if len(in) > len(msg)+grownBy(len(msg)) {
		t.Errorf("%d bytes became %d", len(msg), len(in))
	}
	window := tail(before, 1<<bits)
	if out, err := inflate(in, window, len(msg)); err != nil || !bytes.Equal(out, msg) {
		t.Fatalf("compress/flate: %d bytes as %d became %d bytes, %v", len(msg), len(in), len(out), err)
	}
	var d deflate.Decoder
	if out, err := d.Append(nil, in, window, len(msg)); err != nil || !bytes.Equal(out, msg) {
		t.Fatalf("%d bytes as %d became %d bytes, %v", len(msg), len(in), len(out), err)
	}
	return in
}

// Messages of all kinds and sizes survive a round trip, at each level and with each window, with and without context.
func TestRoundTrip(t *testing.T) {
	sizes := []int{0, 1, 3, 4, 5, 178, 200, 1000, 5000}
	for level := deflate.MinLevel; level <= deflate.MaxLevel; level++ {
		for bits := deflate.MinWindowBits; bits <= deflate.MaxWindowBits; bits++ {
			t.Run(name("level", level, "bits", bits), func(t *testing.T) {
				r := newRand(uint64(level*100 + bits))
				for kind, make := range kinds {
					e := deflate.NewEncoder(level, bits)
					var before []byte
					for i, n := range sizes {
						msg := make(r, n)
						in := checkMessage(t, e, msg, before, bits)
						before = tail(append(before, msg...), 1<<15)
						if i > 0 && n < 2 {
							in2 := e.Append(nil, msg)
							if len(in2) > len(in) {
								t.Errorf("%s: %d bytes take %d bytes, then %d", kind, n, len(in), len(in2))
							}
							before = append(before, msg...)
						}
						if r.IntN(6) == 0 {
							e.Reset()
							before = nil
						}
					}
				}
			})
		}
	}
}

// Large messages are cut into parts and blocks. They survive a round trip, and serve the message that follows as context.
func TestLargeMessages(t *testing.T) {
	for _, level := range []int{1, 3, 6} {
		for kind, make := range kinds {
			t.Run(name("level", level, kind), func(t *testing.T) {
				r := newRand(uint64(level))
				for _, bits := range []int{8, 15} {
					e := deflate.NewEncoder(level, bits)
					var before []byte
					for _, n := range []int{100_000, 20_000} {
						msg := make(r, n)
						checkMessage(t, e, msg, before, bits)
						before = msg
					}
				}
			})
		}
	}
}

// The context is used: a repeated message takes next to nothing, unless the context was reset or the message is further away than the window.
func TestContext(t *testing.T) {
	r := newRand(1)
	msg := random(r, 200)
	for level := deflate.MinLevel; level <= deflate.MaxLevel; level++ {
		for bits := deflate.MinWindowBits; bits <= deflate.MaxWindowBits; bits++ {
			e := deflate.NewEncoder(level, bits)
			first := len(e.Append(nil, msg))
			if again := len(e.Append(nil, msg)); first < 200 || again > 8 {
				t.Errorf("level %d, %d bits: %d bytes, then %d", level, bits, first, again)
			}
			e.Reset()
			if again := len(e.Append(nil, msg)); again != first {
				t.Errorf("level %d, %d bits: %d bytes after Reset", level, bits, again)
			}
			e.Append(nil, random(r, 1<<bits))
			if again := len(e.Append(nil, msg)); again != first {
				t.Errorf("level %d, %d bits: %d bytes out of the window", level, bits, again)
			}
		}
	}
}

// Higher levels make smaller messages, and those of compress/flate at its level 1 are not much smaller. Larger windows help as long as
// repetitions are further away than the smaller windows reach.
func TestSizes(t *testing.T) {
	r := newRand(2)
	msg := ticks(r, 200_000)
	std := len(squeeze(t, 1, msg, nil))
	last := math.MaxInt
	for level := deflate.MinLevel; level <= deflate.MaxLevel; level++ {
		n := len(deflate.NewEncoder(level, 15).Append(nil, msg))
		if n > last || n > std+std/50 {
			t.Errorf("level %d: %d bytes after %d, compress/flate has %d", level, n, last, std)
		}
		last = n
	}
	for bits := deflate.MinWindowBits; bits <= deflate.MaxWindowBits; bits++ {
		msg := random(r, 1<<bits)
		n := len(deflate.NewEncoder(6, bits).Append(nil, bytes.Repeat(msg, 4)))
		if most := len(msg) + len(msg)/8 + 20; n > most {
			t.Errorf("%d bits: %d bytes for %d and three times the same", bits, n, len(msg))
		}
	}
}

// A level or window out of range means the nearest one.
func TestClamped(t *testing.T) {
	msg := ticks(newRand(3), 50_000)
	for _, c := range []struct{ level, bits, asLevel, asBits int }{
		{0, 15, 1, 15}, {-5, 12, 1, 12}, {10, 12, 9, 12}, {1, 0, 1, 8}, {1, 16, 1, 15},
	} {
		got := deflate.NewEncoder(c.level, c.bits).Append(nil, msg)
		want := deflate.NewEncoder(c.asLevel, c.asBits).Append(nil, msg)
		if !bytes.Equal(got, want) {
			t.Errorf("level %d with %d bits is not level %d with %d", c.level, c.bits, c.asLevel, c.asBits)
		}
	}
}

// The encoder writes the examples of RFC 7692 §7.2.3, and keeps the bytes of dst.
func TestWritten(t *testing.T) {
	e := deflate.NewEncoder(1, 15)
	for _, c := range []struct{ msg, want string }{
		{"", "\x00"},
		{"Hello", "\xf2\x48\xcd\xc9\xc9\x07\x00"},
		{"Hello", "\x02\x13\x00\x00"}, // one match, where the RFC has a literal and a match
		{"", "\x00"},
	} {
		if got := e.Append([]byte("before"), []byte(c.msg)); string(got) != "before"+c.want {
			t.Errorf("%q: % x", c.msg, got)
		}
	}
}

// An encoder behaves the same when positions wrap around.
func TestPositions(t *testing.T) {
	for _, level := range []int{1, 6} {
		e := deflate.NewEncoder(level, 10)
		e.SetPosition(deflate.MaxBase - 3000)
		r := newRand(4)
		var before []byte
		began := false
		for i := range 100 {
			msg := tick(r, i)
			checkMessage(t, e, msg, before, 10)
			before = append(before, msg...)
			began = began || e.Position() < deflate.MaxBase/2
		}
		if !began {
			t.Error("positions did not begin again")
		}
		e.SetPosition(math.MaxUint32 - 1<<30)
		e.Reset()
		checkMessage(t, e, slices.Concat(before, before), nil, 10)
	}
}

// Memory grows with the compressed bytes, up to the documented bound.
func TestMemory(t *testing.T) {
	msg := ticks(newRand(5), 100_000)
	for _, c := range []struct{ level, bits, most int }{
		{1, 8, 9 << 10}, {1, 12, 24 << 10}, {4, 12, 32 << 10}, {1, 15, 96 << 10}, {9, 15, 160 << 10},
	} {
		e := deflate.NewEncoder(c.level, c.bits)
		if n := e.Memory(); n != 0 {
			t.Errorf("%d bytes before the first message", n)
		}
		e.Append(nil, msg[:300])
		few := e.Memory()
		e.Append(nil, msg)
		many := e.Memory()
		t.Logf("level %d with %2d bits holds %6d bytes after 300, %6d after 100,000", c.level, c.bits, few, many)
		if many > c.most {
			t.Errorf("level %d with %d bits holds %d bytes, more than %d", c.level, c.bits, many, c.most)
		}
	}
}

// Codes are optimal within their limit: complete, and no longer for a symbol that occurs more often.
func TestLengths(t *testing.T) {
	r := newRand(6)
	for i := range 300 {
		limit := []int{7, 15}[i%2]
		freq := make([]uint32, 1+r.IntN([]int{19, 286}[i%2]))
		for k := range freq {
			switch r.IntN(4) {
			case 0:
				freq[k] = uint32(r.IntN(5))
			case 1:
				freq[k] = 1 << r.IntN(14)
			case 2:
				freq[k] = uint32(math.Exp2(float64(k % 14)))
			}
		}
		lens := deflate.Lengths(freq, limit)
		used, space := 0, 0
		for k, n := range lens {
			if (n > 0) != (freq[k] > 0) || int(n) > limit {
				t.Fatalf("length %d for %d, limit %d", n, freq[k], limit)
			}
			if n > 0 {
				used++
				space += 1 << (limit - int(n))
			}
			for l, m := range lens[:k] {
				if n > 0 && m > 0 && freq[k] > freq[l] && n > m {
					t.Fatalf("length %d for %d, %d for %d", n, freq[k], m, freq[l])
				}
			}
		}
		if used > 1 && space != 1<<limit || used == 1 && space != 1<<(limit-1) {
			t.Fatalf("%d codes fill %d of %d", used, space, 1<<limit)
		}
	}
}

// A code whose tree is too deep stays within its limit. The frequencies grow as fast as they can.
func TestDeepCode(t *testing.T) {
	var msg []byte
	a, b := 1, 1
	for c := range 20 {
		msg = append(msg, bytes.Repeat([]byte{byte('a' + c)}, a)...)
		a, b = b, a+b
	}
	r := newRand(7)
	msg = msg[:16000:16000]
	r.Shuffle(len(msg), func(i, k int) { msg[i], msg[k] = msg[k], msg[i] })
	for level := deflate.MinLevel; level <= deflate.MaxLevel; level++ {
		checkMessage(t, deflate.NewEncoder(level, 15), msg, nil, 15)
	}
}
