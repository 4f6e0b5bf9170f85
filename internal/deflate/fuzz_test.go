package deflate_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/sluice-push/sluice/internal/deflate"
)

// FuzzDecode inflates any bytes: the result equals that of compress/flate, and memory stays within the limit.
func FuzzDecode(f *testing.F) {
	r := newRand(20)
	window := ticks(r, 400)
	for _, level := range []int{-2, 0, 1, 9} {
		f.Add(squeeze(f, level, ticks(r, 500), window), window, 600)
		f.Add(squeeze(f, level, random(r, 30), nil), []byte(nil), 29)
	}
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\xf3\x48\xcd\xc9\xc9\x07\x00"), []byte("He"), 20)
	f.Add(deflate.NewEncoder(1, 15).Append(nil, make([]byte, 5000)), []byte{0}, 4000)
	var d deflate.Decoder
	f.Fuzz(func(t *testing.T, in, window []byte, limit int) {
		limit = min(max(limit, 0), 1<<16)
		want, wantErr := inflate(in, tail(window, 1<<15), limit)
		got, err := d.Append(nil, in, window, limit)
		if len(got) > limit || cap(got) > limit+limit/4+512 {
			t.Fatalf("%d bytes in %d, limit %d", len(got), cap(got), limit)
		}
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; compress/flate has %d, %v", len(got), err, len(want), wantErr)
		}
		if err != nil && !errors.Is(err, deflate.ErrCorrupt) && !errors.Is(err, deflate.ErrTooLarge) {
			t.Fatalf("error %v", err)
		}
		if errors.Is(err, deflate.ErrTooLarge) && len(got) != limit {
			t.Fatalf("%d bytes of %d: %v", len(got), limit, err)
		}
		// If dst has room from the beginning, other code paths must give the same result.
		again, errAgain := d.Append(make([]byte, 0, limit+1000), in, window, limit)
		if !errors.Is(errAgain, err) || err == nil && !bytes.Equal(again, got) {
			t.Fatalf("%d bytes, %v; with room %d, %v", len(got), err, len(again), errAgain)
		}
	})
}

// FuzzRoundTrip compresses two messages one after the other. Both decoders restore both, with no more than the window.
func FuzzRoundTrip(f *testing.F) {
	r := newRand(21)
	f.Add(ticks(r, 300), ticks(r, 300), 1, 8)
	f.Add(random(r, 3), []byte{}, 6, 15)
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaab"), []byte("aaaaaaaaaaaaaaaaaaab"), 9, 9)
	f.Add(bytes.Repeat([]byte("abcdefg"), 100), bytes.Repeat([]byte("abcdefg"), 1000), 3, 12)
	f.Fuzz(func(t *testing.T, first, second []byte, level, bits int) {
		bits = min(max(bits, deflate.MinWindowBits), deflate.MaxWindowBits)
		e := deflate.NewEncoder(level, bits)
		checkMessage(t, e, first, nil, bits)
		in := checkMessage(t, e, second, first, bits)
		// Without its context the message may be refused. The result must be that of the reference.
		var d deflate.Decoder
		got, err := d.Append(nil, in, nil, len(second))
		if want, wantErr := inflate(in, nil, len(second)); (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("without context: %v, want %v", err, wantErr)
		}
		e.Reset()
		checkMessage(t, e, second, nil, bits)
	})
}

// The reference refuses input that continues where a message must end.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		in   string
		want error
	}{
		{"\xf2\x48\xcd\xc9\xc9\x07\x00", nil},
		{"\xf2\x48\xcd\xc9\xc9", errReference},
		{"\xf3\x48\xcd\xc9\xc9\x07\x00", nil},
		{"\x00\x05\x00\xfa\xffab", errReference},
		{"\xf2\x48\xcd\xc9\xc9\x07\x00\x00", errReference},
	} {
		if out, err := inflate([]byte(c.in), nil, 5); !errors.Is(err, c.want) || err == nil && string(out) != "Hello" {
			t.Errorf("% x: %q, %v", c.in, out, err)
		}
	}
	if out, err := inflate([]byte("\xf2\x48\xcd\xc9\xc9\x07\x00"), nil, 4); !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("%q, %v", out, err)
	}
}
