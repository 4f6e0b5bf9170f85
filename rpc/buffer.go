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
