package deflate_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/internal/deflate"
)

// A window keeps the last bytes, whatever pieces they come in.
func TestWindow(t *testing.T) {
	for bits := deflate.MinWindowBits - 1; bits <= deflate.MaxWindowBits+1; bits++ {
		kept := 1 << min(max(bits, 9), 15)
		r := newRand(uint64(bits))
		w := deflate.NewWindow(bits)
		var all []byte
		for i := range 200 {
			p := random(r, r.IntN(kept/8))
			if i%100 == 99 {
				p = random(r, kept-1+r.IntN(3))
			}
			w.Append(p)
			all = tail(append(all, p...), kept)
			if !bytes.Equal(w.Bytes(), all) {
				t.Fatalf("%d bits: %d bytes after %d pieces, want %d", bits, len(w.Bytes()), i+1, len(all))
			}
			if n := w.Memory(); n > kept+kept/4 {
				t.Fatalf("%d bits: %d bytes of memory", bits, n)
			}
		}
		w.Reset()
		if len(w.Bytes()) != 0 || w.Memory() != 0 {
			t.Errorf("%d bits: %d bytes after Reset", bits, w.Memory())
		}
	}
}

// The window of a quiet connection is small, and the zero value keeps nothing.
func TestWindowMemory(t *testing.T) {
	w := deflate.NewWindow(15)
	for range 3 {
		w.Append(make([]byte, 178))
	}
	if n := w.Memory(); n > 1024 {
		t.Errorf("%d bytes of memory for 534", n)
	}
	var none deflate.Window
	none.Append([]byte("abc"))
	if len(none.Bytes()) != 0 || none.Memory() != 0 {
		t.Errorf("a window without size keeps %q", none.Bytes())
	}
}
