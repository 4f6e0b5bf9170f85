package buffer

// Inbound holds the bytes of a connection that have arrived and are not used yet. The goroutine that reads the connection owns it.
//
// Memory grows with the bytes that have arrived, never with a length that the peer announces. Bytes go into a buffer borrowed from a pool. If
// one incomplete message fills the buffer, a buffer of twice the size replaces it, up to Limit. While the session waits for the peer, Inbound
// holds no memory, or about as much as the part of a message that has arrived.
type Inbound struct {
	buf          []byte // buf[r:w] is unread
	r, w         int
	Need         int     // Decode cannot succeed before this many bytes are unread
	Limit        int     // the most bytes that may be unread
	pooled       *Buffer // the pooled buffer that contains buf, or nil
	Pool         *Pool   // lends the buffers
	PartialPools *Pools  // lends the memory for a partial message while the session waits; nil allocates it

	Shrunk bool // Shrink was called: the peer had sent nothing more
}

// Unread returns the bytes that are not used yet.
func (in *Inbound) Unread() []byte { return in.buf[in.r:in.w] }

// Space returns the memory for the next bytes. It is empty only if Limit bytes are unread.
func (in *Inbound) Space() []byte {
	unread := in.w - in.r
	switch {
	case in.r > 0 && unread <= len(in.buf)/4:
		copy(in.buf, in.Unread())
		in.r, in.w = 0, unread
	case in.w == len(in.buf):
		in.grow(unread)
	}
	return in.buf[in.w:min(len(in.buf), in.r+in.Limit)]
}

// Borrow lets the next bytes go into b if Inbound has no buffer. Shrink, Compact or Release gives b back.
func (in *Inbound) Borrow(b *Buffer) {
	if in.buf == nil {
		in.buf, in.pooled, b.Free = b.B, b, false
	}
}

// grow moves the unread bytes to a larger buffer: one of the pool if that is larger, otherwise one of twice the size.
func (in *Inbound) grow(unread int) {
	if unread >= in.Limit {
		return
	}
	old, pooled := in.Unread(), in.pooled
	if unread < in.Pool.Size {
		in.pooled = in.Pool.Get()
		in.buf = in.pooled.B
	} else {
		in.buf, in.pooled = in.memory(min(2*unread, in.Limit))
	}
	in.r, in.w = 0, copy(in.buf, old)
	if pooled != nil {
		pooled.Release()
	}
}

// Arrived records that n bytes were written to the memory that Space returned.
func (in *Inbound) Arrived(n int) { in.w += n }

// Discard removes the first n unread bytes.
func (in *Inbound) Discard(n int) {
	in.r += n
	in.Need = 0
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// Add appends bytes that were read elsewhere, and reports whether all of them fitted.
func (in *Inbound) Add(p []byte) bool {
	for len(p) > 0 {
		n := copy(in.Space(), p)
		if n == 0 {
			return false
		}
		in.Arrived(n)
		p = p[n:]
	}
	return true
}

// Shrink is called before the session waits for the peer. It gives the buffer back, and moves the unread bytes to a smaller one, unless they take
// more than a quarter of the buffer.
func (in *Inbound) Shrink() {
	if in.Shrunk = true; in.w-in.r <= len(in.buf)/4 {
		in.moveUnread(in.memory)
	}
}

// Compact is Shrink before a wait that may be long. It always copies the unread bytes to memory of exactly their size.
func (in *Inbound) Compact() {
	in.moveUnread(func(size int) ([]byte, *Buffer) { return make([]byte, size), nil })
}

// moveUnread moves the unread bytes to memory that the function allocates, and gives the buffer back.
func (in *Inbound) moveUnread(memory func(size int) ([]byte, *Buffer)) {
	unread := in.w - in.r
	switch {
	case in.buf == nil, unread == len(in.buf):
		return
	case unread == 0:
		in.Release()
	default:
		own, from := memory(unread)
		own = own[:copy(own[:unread], in.Unread())] // cut to the unread bytes: Space sees a full buffer, and takes a larger one before more is read
		need := in.Need
		in.Release()
		in.buf, in.pooled, in.w, in.Need = own, from, len(own), need
	}
}

// memory returns at least size bytes, and the pooled buffer that contains them, or nil if they are allocated.
func (in *Inbound) memory(size int) ([]byte, *Buffer) {
	if in.PartialPools != nil {
		if class := in.PartialPools.class(size); class != nil {
			b := class.Get()
			return b.B, b
		}
	}
	return make([]byte, size), nil
}

// ShrinkTo is Shrink for a connection that blocks in a read until bytes arrive, and so needs a buffer meanwhile. If nothing is unread, a buffer of
// size bytes stays.
func (in *Inbound) ShrinkTo(size int) {
	if in.w == in.r && (in.buf == nil || len(in.buf) > size) {
		need := in.Need
		in.Release()
		in.buf, in.Need = make([]byte, size), need
	}
}

// Release discards the unread bytes, and gives the buffer back.
func (in *Inbound) Release() {
	if in.pooled != nil {
		in.pooled.Release()
	}
	in.buf, in.r, in.w, in.Need, in.pooled = nil, 0, 0, 0, nil
}
