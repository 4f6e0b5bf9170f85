package rpc

import "sync"

// keptBuffer is the capacity up to which a buffer is used again.
const keptBuffer = 64 << 10

// smallBuffer is the capacity up to which a buffer may be held by a handler that needs less.
const smallBuffer = 4 << 10

// buffer is memory for a body that is used again.
type buffer struct{ b []byte }

// buffers are those of up to 4, 16 and 64 KiB. They are kept apart, so that a call with a small body does not hold a large buffer while its handler
// waits: [Options.MaxBytes] counts the bytes of the body only.
var buffers [3]sync.Pool

// poolFor returns the pool of buffers with a capacity, nil if such buffers are not used again.
func poolFor(capacity int) *sync.Pool {
	most := smallBuffer
	for i := range buffers {
		if capacity <= most {
			return &buffers[i]
		}
		most *= 4
	}
	return nil
}

// newBuffer returns an empty buffer for a body of about that many bytes.
func newBuffer(size int) *buffer {
	if pool := poolFor(size); pool != nil {
		if b, ok := pool.Get().(*buffer); ok {
			b.b = b.b[:0]
			return b
		}
	}
	return new(buffer)
}

// release gives the buffer back. Its bytes must not be used any more.
func (b *buffer) release() {
	if pool := poolFor(cap(b.b)); pool != nil {
		pool.Put(b)
	}
}

// growFor has the buffer fit the next body of that many bytes, unless they are more than most.
func (b *buffer) growFor(size, most int) {
	if size > cap(b.b) && size <= most {
		b.b = make([]byte, 0, size)
	}
}

// kept returns memory to use again.
func kept(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// largeBuffer is the capacity up to which the memory of a queue of messages is used again. What is above keptBuffer is used by the next queue that needs it,
// so that a stream which is idle holds none, and one whose caller falls behind again and again does not allocate each time.
const largeBuffer = 2 << 20

var largeBuffers sync.Pool // of *[]byte

// messages is a queue of bodies in one piece of memory.
type messages struct {
	bytes []byte // all bodies, one after the other
	sizes []int  // of the bodies
	taken int    // how many bodies were taken
	at    int    // where the next body begins in bytes
}

// add adds a copy of a body.
func (m *messages) add(body []byte) {
	if size := len(m.bytes) + len(body); size > cap(m.bytes) && size > keptBuffer {
		if b, ok := largeBuffers.Get().(*[]byte); ok && cap(*b) >= size {
			m.bytes = append((*b)[:0], m.bytes...)
		}
	}
	m.bytes = append(m.bytes, body...)
	m.sizes = append(m.sizes, len(body))
}

// take returns the next body, which is valid until reset. It reports false if all were taken.
func (m *messages) take() (body []byte, ok bool) {
	if m.taken == len(m.sizes) {
		return nil, false
	}
	from := m.at
	m.at += m.sizes[m.taken]
	m.taken++
	return m.bytes[from:m.at:m.at], true
}

// reset empties the queue. It keeps small memory.
func (m *messages) reset() {
	if size := cap(m.bytes); size > keptBuffer && size <= largeBuffer {
		b := m.bytes[:0]
		largeBuffers.Put(&b)
	}
	*m = messages{bytes: kept(m.bytes), sizes: m.sizes[:0]}
}
