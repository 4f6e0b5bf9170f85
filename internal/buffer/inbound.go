package buffer

// Inbound holds the bytes of a connection that arrived and were not used yet. It is a plain struct, owned by the goroutine that
// reads.
//
// Memory follows what has arrived, never what the peer says will come: bytes go into a buffer borrowed from a pool; when it is
// full of one incomplete message a buffer twice as large takes over, up to limit. While the session waits for the peer it holds
// nothing, or when a little of a message is there, just that.
type Inbound struct {
	buf   []byte // buf[r:w] is unread
	r, w  int
	Need  int     // calling Decode makes no sense before so many bytes are unread
	Limit int     // most unread bytes
	lent  *Buffer // what buf lies in, if it was borrowed
	Pool  *Pool   // where buffers are borrowed from
	Aside *Pools  // for what is kept of a message, if not nil

	Rested bool // Rest was called: the peer had nothing more to say
}

// Unread returns the bytes that were not used yet.
func (in *Inbound) Unread() []byte { return in.buf[in.r:in.w] }

// Space returns where the next bytes go. It is empty only when limit bytes are unread.
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

// Room returns how many bytes there were in what Space returned last.
func (in *Inbound) Room() int { return min(len(in.buf), in.r+in.Limit) - in.w }

// Borrow puts what arrives into b if there is no other place for it, until it is put to rest.
func (in *Inbound) Borrow(b *Buffer) {
	if in.buf == nil {
		in.buf, in.lent, b.Free = b.B, b, false
	}
}

// grow moves the unread bytes to a larger buffer: one of the pool when that is larger, otherwise twice the size.
func (in *Inbound) grow(unread int) {
	if unread >= in.Limit {
		return
	}
	old, lent := in.Unread(), in.lent
	if unread < in.Pool.Size {
		in.lent = in.Pool.Get()
		in.buf = in.lent.B
	} else {
		in.buf, in.lent = in.memory(min(2*unread, in.Limit))
	}
	in.r, in.w = 0, copy(in.buf, old)
	if lent != nil {
		lent.Release()
	}
}

// Arrived says that n bytes were put where Space said.
func (in *Inbound) Arrived(n int) { in.w += n }

// Used says that the first n unread bytes are done with.
func (in *Inbound) Used(n int) {
	in.r += n
	in.Need = 0
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// Add puts bytes that were read elsewhere behind the unread ones and reports whether they fitted.
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

// Rest is called before waiting for the peer: it gives the buffer back, and keeps what is unread in as little as it needs.
func (in *Inbound) Rest() {
	if in.Rested = true; in.w-in.r <= len(in.buf)/4 {
		in.settle(in.memory)
	}
}

// Tighten is Rest before a wait that may be long: no byte more than needed stays, whatever has to be copied for that.
func (in *Inbound) Tighten() {
	in.settle(func(size int) ([]byte, *Buffer) { return make([]byte, size), nil })
}

// settle keeps what is unread in memory that is taken for it.
func (in *Inbound) settle(memory func(size int) ([]byte, *Buffer)) {
	unread := in.w - in.r
	switch {
	case in.buf == nil, unread == len(in.buf):
		return
	case unread == 0:
		in.Drop()
	default:
		own, from := memory(unread)
		own = own[:copy(own[:unread], in.Unread())] // it looks full, so that more will be read into a larger buffer
		need := in.Need
		in.Drop()
		in.buf, in.lent, in.w, in.Need = own, from, len(own), need
	}
}

// memory returns at least size bytes, and the buffer they lie in, if they are borrowed.
func (in *Inbound) memory(size int) ([]byte, *Buffer) {
	if in.Aside != nil {
		if class := in.Aside.class(size); class != nil {
			b := class.Get()
			return b.B, b
		}
	}
	return make([]byte, size), nil
}

// Keep is rest for a connection that can only be read by waiting in a read: a buffer of size bytes stays.
func (in *Inbound) Keep(size int) {
	if in.w == in.r && (in.buf == nil || len(in.buf) > size) {
		need := in.Need
		in.Drop()
		in.buf, in.Need = make([]byte, size), need
	}
}

// Drop forgets everything.
func (in *Inbound) Drop() {
	if in.lent != nil {
		in.lent.Release()
	}
	in.buf, in.r, in.w, in.Need, in.lent = nil, 0, 0, 0, nil
}
