package deflate

// minKept is the fewest bytes that a [Window] keeps. zlib, which most peers use, cannot compress with a window of 2^8 bytes and uses 2^9
// instead.
const minKept = 1 << 9

// Window is the context of an inflating connection: the last bytes of all its messages. The zero value keeps nothing; see [NewWindow]. Its
// memory is at most the number of appended bytes, rounded up to a power of two, and at most a quarter more than it keeps. One goroutine at a
// time may use a window.
type Window struct {
	kept int
	buf  []byte
}

// NewWindow returns a window that keeps the last 2^bits bytes. bits is 8 to 15, and a value out of range means the nearest one. For 8 the window
// keeps 2^9 bytes.
func NewWindow(bits int) Window {
	bits = min(max(bits, MinWindowBits), MaxWindowBits)
	return Window{kept: max(1<<bits, minKept)}
}

// Bytes returns the window for [Decoder.Append], valid until the next Append or Reset.
func (w *Window) Bytes() []byte {
	return w.buf[max(len(w.buf)-w.kept, 0):]
}

// Append adds the bytes of an inflated message. It copies the bytes of p that it keeps.
func (w *Window) Append(p []byte) {
	if len(p) >= w.kept {
		p = p[len(p)-w.kept:]
		w.buf = w.buf[:0]
	}
	most := w.kept + w.kept/4
	if len(w.buf)+len(p) > most {
		old := w.Bytes()
		// The bytes that p displaces need no copy.
		w.buf = w.buf[:copy(w.buf, old[max(len(old)+len(p)-w.kept, 0):])]
	}
	if need := len(w.buf) + len(p); need > cap(w.buf) {
		grown := make([]byte, len(w.buf), min(max(need, 2*cap(w.buf)), most))
		copy(grown, w.buf)
		w.buf = grown
	}
	w.buf = append(w.buf, p...)
}

// Reset discards all bytes, and gives the memory back.
func (w *Window) Reset() { w.buf = nil }
