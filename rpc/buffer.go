package rpc

import "sync"

// keptBuffer is the capacity up to which a buffer is used again.
const keptBuffer = 64 << 10

// buffer is memory for a body that is used again.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// newBuffer returns an empty buffer.
func newBuffer() *buffer {
	b := buffers.Get().(*buffer) //nolint:forcetypeassert // the pool has nothing else
	b.b = b.b[:0]
	return b
}

// release gives the buffer back. Its bytes must not be used any more.
func (b *buffer) release() {
	if cap(b.b) <= keptBuffer {
		buffers.Put(b)
	}
}

// kept returns memory to use again.
func kept(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// messages is a queue of bodies in one piece of memory.
type messages struct {
	bytes []byte // all bodies, one after the other
	sizes []int  // of the bodies
	taken int    // how many bodies were taken
	at    int    // where the next body begins in bytes
}

// add adds a copy of a body.
func (m *messages) add(body []byte) {
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

// reset empties the queue and keeps its memory if it is small.
func (m *messages) reset() { *m = messages{bytes: kept(m.bytes), sizes: m.sizes[:0]} }
