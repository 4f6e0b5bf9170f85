package session

import (
	"bytes"
	"sync"
)

// buffer is a pooled piece of memory of the size of its pool.
type buffer struct {
	b    []byte
	refs int // frames that lie in it; owned by the queue that fills it
	pool *bufferPool
	free bool
	kept bool // it is not given back: its owner looks whether it is free
}

// own makes b stay with the caller when it is released: it is free from now on, and whenever it was released.
func (b *buffer) own() { b.kept, b.free = true, true }

// disown has b given back to its pool when it is released.
func (b *buffer) disown() { b.kept = false }

// release gives the buffer back. Releasing it twice is a bug and panics.
func (b *buffer) release() {
	if b.free {
		panic("session: buffer released twice")
	}
	b.free = true
	if !b.kept {
		b.pool.pool.Put(b)
	}
}

// bufferPool keeps buffers of one size.
type bufferPool struct {
	size int
	pool sync.Pool
}

// get returns a buffer whose b has the pool's size.
func (p *bufferPool) get() *buffer {
	b, ok := p.pool.Get().(*buffer)
	if !ok {
		return &buffer{b: make([]byte, p.size), pool: p}
	}
	b.free, b.refs, b.b = false, 0, b.b[:cap(b.b)]
	return b
}

// pools are what the sessions of a server borrow from. An idle session holds nothing of it.
type pools struct {
	read    bufferPool    // for bytes that arrive
	shared  bufferPool    // the same, borrowed for one turn in a loop
	chunk   bufferPool    // for frames that wait
	classes [3]bufferPool // for more than a chunk of what is put aside
	batches sync.Pool
	queues  sync.Pool
}

const chunkSize = 16 << 10

// scratchMax is the most memory for encoding that is kept.
const scratchMax = 160 << 10

// copyOf returns a copy of p and the buffer it lies in, if it was borrowed. Much more memory than that is not taken.
func (p *pools) copyOf(b []byte) (own []byte, from *buffer) {
	if class := p.class(len(b)); class != nil {
		from = class.get()
		return from.b[:copy(from.b, b)], from
	}
	return bytes.Clone(b), nil
}

// class returns the pool whose buffers suit size bytes, or nil when memory of their own does.
func (p *pools) class(size int) *bufferPool {
	switch {
	case size <= chunkSize/4:
		return nil
	case size <= chunkSize:
		return &p.chunk
	}
	for i := range p.classes {
		if size <= p.classes[i].size {
			return &p.classes[i]
		}
	}
	return nil
}

// sharedBuffer is the size of the buffers of loops, of which there are hardly more than loops: large, so that what has arrived is
// read at once.
const sharedBuffer = 128 << 10

func newPools(readBuffer int) *pools {
	return &pools{
		read:    bufferPool{size: readBuffer},
		shared:  bufferPool{size: max(readBuffer, sharedBuffer)},
		chunk:   bufferPool{size: chunkSize},
		classes: [...]bufferPool{{size: 2 * chunkSize}, {size: 4 * chunkSize}, {size: 8 * chunkSize}},
		batches: sync.Pool{New: func() any { b := new(batch); b.clear(); b.call.bind(b); return b }},
		queues:  sync.Pool{New: func() any { return new(queue) }},
	}
}

func (p *pools) batch() *batch { return p.batches.Get().(*batch) }

// putBatch gives a batch back, without the memory of an encoded frame that was unusually large.
func (p *pools) putBatch(b *batch) {
	b.clear()
	b.forget()
	b.inside = false
	if cap(b.scratch) > scratchMax {
		b.scratch = nil
	}
	p.batches.Put(b)
}

func (p *pools) queue() *queue { return p.queues.Get().(*queue) }

// putQueue drops what is left in q, gives q back, and returns how many bytes it dropped.
func (p *pools) putQueue(q *queue) int {
	n := q.reset()
	p.queues.Put(q)
	return n
}
