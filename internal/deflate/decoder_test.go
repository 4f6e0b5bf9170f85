package deflate_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Messages of compress/flate at each level inflate to the original, with the window as context.
func TestInflate(t *testing.T) {
	var d deflate.Decoder
	for kind, make := range kinds {
		for _, level := range []int{-2, 0, 1, 9} {
			t.Run(name(kind, "level", level), func(t *testing.T) {
				r := newRand(uint64(level + 10))
				w := deflate.NewWindow(15)
				for _, n := range []int{0, 1, 2, 3, 178, 1000, 20_000, 70_000, 50} {
					msg := make(r, n)
					in := squeeze(t, level, msg, w.Bytes())
					for _, room := range []int{0, n + 3} {
						out, err := d.Append(append(bytes.Repeat([]byte{'x'}, room)[:0], "xyz"...), in, w.Bytes(), n)
						if err != nil || string(out[:3]) != "xyz" || !bytes.Equal(out[3:], msg) {
							t.Fatalf("%d bytes: %d, %v", n, len(out)-3, err)
						}
					}
					if n > 0 {
						out, err := d.Append([]byte("xyz"), in, w.Bytes(), n-1)
						if !errors.Is(err, deflate.ErrTooLarge) || !bytes.Equal(out[3:], msg[:n-1]) {
							t.Fatalf("%d bytes, one too many: %d, %v", n, len(out)-3, err)
						}
					}
					w.Append(msg)
				}
			})
		}
	}
}

// Single messages inflate as the RFCs say.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, in, window, want string
		err                    error
	}{
		{name: "RFC 7692 7.2.3.1", in: "f248cdc9c90700", want: "Hello"},
		{name: "RFC 7692 7.2.3.2", in: "f200110000", window: "Hello", want: "Hello"},
		{name: "window too small", in: "f200110000", window: "llo", want: "H", err: deflate.ErrCorrupt},
		{name: "RFC 7692 7.2.3.3", in: "000500faff48656c6c6f00", want: "Hello"},
		{name: "RFC 7692 7.2.3.4", in: "f348cdc9c9070000", want: "Hello"},
		{name: "final and nothing behind", in: "f348cdc9c90700", want: "Hello"},
		{name: "final and another", in: "f348cdc9c90700f348cdc9c90700", want: "HelloHello"},
		{name: "final and one that is not", in: "f348cdc9c90700f248cdc9c90700", want: "HelloHello"},
		{name: "final and garbage", in: "f348cdc9c90700ff", want: "Hello", err: deflate.ErrCorrupt},
		{name: "final and stored", in: "010500faff48656c6c6f", want: "Hello"},
		{name: "final and completed by what was removed", in: "01"},
		{name: "RFC 7692 7.2.3.5", in: "f248050000" + "00ffffcac9c90700", want: "Hello"},
		{name: "RFC 7692 7.2.3.6", in: "00"},
		{name: "nothing"},
		{name: "stored, of what was removed", in: "000400fbff", want: "\x00\x00\xff\xff"},
		{name: "stored into what was removed", in: "000200fdff", err: deflate.ErrCorrupt},
		{name: "stored beyond what was removed", in: "000600f9ff61", err: deflate.ErrCorrupt},
		{name: "final stored, of what was removed", in: "010400fbff", want: "\x00\x00\xff\xff"},
		{name: "final stored, half of what was removed", in: "010400fbff6162", want: "ab\x00\x00"},
		{name: "stored with a wrong complement", in: "000100ffff61", err: deflate.ErrCorrupt},
		{name: "kind 3", in: "06", err: deflate.ErrCorrupt},
		{name: "no end", in: "f248cdc9c9", want: "Hell", err: deflate.ErrCorrupt},
		{name: "length symbol 286", in: "1a03", err: deflate.ErrCorrupt},
		{name: "286 codes and one more", in: "f4000000000000000000", err: deflate.ErrCorrupt},
		{name: "30 distances and one more", in: "041e0000000000000000", err: deflate.ErrCorrupt},
		{name: "no code for lengths", in: "0400000000000000000000", err: deflate.ErrCorrupt},
		{name: "too many codes for lengths", in: "04c0ffffffffffffff", err: deflate.ErrCorrupt},
		{name: "header cut off", in: "0c", err: deflate.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := hex.DecodeString(c.in)
			if err != nil {
				t.Fatal(err)
			}
			var d deflate.Decoder
			out, err := d.Append(nil, in, []byte(c.window), 100)
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if c.err == nil && string(out) != c.want || !strings.HasPrefix(string(out), c.want) {
				t.Errorf("%q, want %q", out, c.want)
			}
			if ref, err := inflate(in, []byte(c.window), 100); (err == nil) != (c.err == nil) || err == nil && string(ref) != c.want {
				t.Errorf("compress/flate: %q, %v", ref, err)
			}
		})
	}
}

// Every message that is cut off or has a wrong bit is either refused, or inflates to the same bytes as with compress/flate.
func TestBroken(t *testing.T) {
	r := newRand(10)
	var d deflate.Decoder
	window := ticks(r, 3000)
	for _, msg := range [][]byte{ticks(r, 150), ticks(r, 600), random(r, 100), bytes.Repeat([]byte("abc"), 2000)} {
		for _, level := range []int{-2, 0, 1, 9} {
			in := squeeze(t, level, msg, window)
			for n := range len(in) {
				checkBroken(t, &d, in[:n], window)
			}
			for range 100 {
				broken := bytes.Clone(in)
				for range 1 + r.IntN(3) {
					broken[r.IntN(len(broken))] ^= 1 << r.IntN(8)
				}
				checkBroken(t, &d, broken, window[r.IntN(len(window)):])
			}
		}
	}
}

// checkBroken compares the result for any bytes with that of the reference.
func checkBroken(t *testing.T, d *deflate.Decoder, in, window []byte) {
	t.Helper()
	const limit = 10_000
	want, wantErr := inflate(in, window, limit)
	for _, room := range []int{0, 2 * limit} {
		got, err := d.Append(make([]byte, 0, room), in, window, limit)
		if len(got) > limit {
			t.Fatalf("%d bytes, more than the limit: %x", len(got), in)
		}
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; compress/flate has %d, %v: in %x, window %x", len(got), err, len(want), wantErr, in, window)
		}
	}
}

// A message that inflates to a thousand times its size takes no more memory than the limit.
func TestBomb(t *testing.T) {
	in := deflate.NewEncoder(9, 15).Append(nil, make([]byte, 1<<20))
	if len(in) > 2000 {
		t.Fatalf("%d bytes", len(in))
	}
	var d deflate.Decoder
	for _, limit := range []int{-1, 0, 1, 300, 10_000, 1<<20 - 1, 1 << 20} {
		out, err := d.Append(nil, in, nil, limit)
		if limit == 1<<20 && err != nil || limit < 1<<20 && !errors.Is(err, deflate.ErrTooLarge) {
			t.Errorf("limit %d: %v", limit, err)
		}
		if len(out) != max(limit, 0) || cap(out) > limit+limit/4+512 {
			t.Errorf("limit %d: %d bytes in %d", limit, len(out), cap(out))
		}
	}
}

// If dst has room, neither direction allocates.
func TestNoAllocation(t *testing.T) {
	r := newRand(11)
	e := deflate.NewEncoder(1, 12)
	w := deflate.NewWindow(12)
	var d deflate.Decoder
	msg := ticks(r, 500)
	in, out := make([]byte, 0, 1000), make([]byte, 0, len(msg))
	n := testing.AllocsPerRun(500, func() {
		in = e.Append(in[:0], msg)
		var err error
		if out, err = d.Append(out[:0], in, w.Bytes(), len(msg)); err != nil || !bytes.Equal(out, msg) {
			t.Fatal(len(out), err)
		}
		w.Append(out)
		msg[r.IntN(len(msg))]++
	})
	if n > 0.5 { // a garbage collection may empty the pool once
		t.Errorf("%v allocations a message", n)
	}
}

// The tables of random codes, flat and deep ones, fit into the decoder.
func TestTableSizes(t *testing.T) {
	r := newRand(12)
	most := [2]int{}
	for i := range 1000 {
		isDist := i%2 == 1
		n := [2]int{286, 30}[i%2]
		lens := randomCode(r, 2+r.IntN(n-1))
		used, limit, ok := deflate.TableSizes(lens, isDist)
		if !ok || used > limit {
			t.Fatalf("%d entries, %d allowed, %v: %v", used, limit, ok, lens)
		}
		most[i%2] = max(most[i%2], used)
	}
	t.Logf("at most %d and %d entries", most[0], most[1])
}

// randomCode returns the lengths of a complete code with n symbols, in random order.
func randomCode(r *rand.Rand, n int) []uint8 {
	lens := []uint8{1, 1}
	deep := r.IntN(3)
	for len(lens) < n {
		i := r.IntN(len(lens))
		if deep > 0 && r.IntN(4) > 0 {
			i = len(lens) - 1 - r.IntN(min(deep, len(lens)))
		}
		if lens[i] < 15 {
			lens[i]++
			lens = append(lens, lens[i])
		}
	}
	r.Shuffle(len(lens), func(i, k int) { lens[i], lens[k] = lens[k], lens[i] })
	return lens
}
