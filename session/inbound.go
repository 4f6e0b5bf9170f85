package session

// inbound holds the bytes of a connection that arrived and were not used yet. It is a plain struct, owned by the goroutine that
// reads.
//
// Memory follows what has arrived, never what the peer says will come: bytes go into a buffer borrowed from a pool; when it is
// full of one incomplete message a buffer twice as large takes over, up to limit. While the session waits for the peer it holds
// nothing, or when a little of a message is there, just that.
type inbound struct {
	buf   []byte // buf[r:w] is unread
	r, w  int
	need  int     // calling Decode makes no sense before so many bytes are unread
	limit int     // most unread bytes
	lent  *buffer // what buf lies in, if it was borrowed
	pool  *bufferPool
	aside *pools // for what is kept of a message, if not nil

	rested bool // rest was called: the peer had nothing more to say
}

// unread returns the bytes that were not used yet.
func (in *inbound) unread() []byte { return in.buf[in.r:in.w] }

// space returns where the next bytes go. It is empty only when limit bytes are unread.
func (in *inbound) space() []byte {
	unread := in.w - in.r
	switch {
	case in.r > 0 && unread <= len(in.buf)/4:
		copy(in.buf, in.unread())
		in.r, in.w = 0, unread
	case in.w == len(in.buf):
		in.grow(unread)
	}
	return in.buf[in.w:min(len(in.buf), in.r+in.limit)]
}

// borrow puts what arrives into b if there is no other place for it, until it is put to rest.
func (in *inbound) borrow(b *buffer) {
	if in.buf == nil {
		in.buf, in.lent, b.free = b.b, b, false
	}
}

// grow moves the unread bytes to a larger buffer: one of the pool when that is larger, otherwise twice the size.
func (in *inbound) grow(unread int) {
	if unread >= in.limit {
		return
	}
	old, lent := in.unread(), in.lent
	if unread < in.pool.size {
		in.lent = in.pool.get()
		in.buf = in.lent.b
	} else {
		in.buf, in.lent = in.memory(min(2*unread, in.limit))
	}
	in.r, in.w = 0, copy(in.buf, old)
	if lent != nil {
		lent.release()
	}
}

// arrived says that n bytes were put where space said.
func (in *inbound) arrived(n int) { in.w += n }

// used says that the first n unread bytes are done with.
func (in *inbound) used(n int) {
	in.r += n
	in.need = 0
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// add puts bytes that were read elsewhere behind the unread ones and reports whether they fitted.
func (in *inbound) add(p []byte) bool {
	for len(p) > 0 {
		n := copy(in.space(), p)
		if n == 0 {
			return false
		}
		in.arrived(n)
		p = p[n:]
	}
	return true
}

// rest is called before waiting for the peer: it gives the buffer back, and keeps what is unread in as little as it needs.
func (in *inbound) rest() {
	in.rested = true
	unread := in.w - in.r
	switch {
	case in.buf == nil || unread > 0 && unread > len(in.buf)/4:
		return
	case unread == 0:
		in.drop()
	default:
		own, from := in.memory(unread)
		own = own[:copy(own[:unread], in.unread())] // it looks full, so that more will be read into a larger buffer
		need := in.need
		in.drop()
		in.buf, in.lent, in.w, in.need = own, from, len(own), need
	}
}

// memory returns at least size bytes, and the buffer they lie in, if they are borrowed.
func (in *inbound) memory(size int) ([]byte, *buffer) {
	if in.aside != nil {
		if class := in.aside.class(size); class != nil {
			b := class.get()
			return b.b, b
		}
	}
	return make([]byte, size), nil
}

// keep is rest for a connection that can only be read by waiting in a read: a buffer of size bytes stays.
func (in *inbound) keep(size int) {
	if in.w == in.r && (in.buf == nil || len(in.buf) > size) {
		need := in.need
		in.drop()
		in.buf, in.need = make([]byte, size), need
	}
}

// drop forgets everything.
func (in *inbound) drop() {
	if in.lent != nil {
		in.lent.release()
	}
	in.buf, in.r, in.w, in.need, in.lent = nil, 0, 0, 0, nil
}
