package session

import "sync"

// buffer is a pooled piece of memory of the size of its pool.
type buffer struct {
	b    []byte
	refs int // frames that lie in it; owned by the queue that fills it
	pool *bufferPool
	free bool
}

// release gives the buffer back. Releasing it twice is a bug and panics.
func (b *buffer) release() {
	if b.free {
		panic("session: buffer released twice")
	}
	b.free = true
	b.pool.pool.Put(b)
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
	read    bufferPool // for bytes that arrive
	shared  bufferPool // the same, borrowed for one turn in a loop
	chunk   bufferPool // for frames that wait
	batches sync.Pool
	queues  sync.Pool
}

const chunkSize = 16 << 10

// sharedBuffer is the size of the buffers of loops, of which there are hardly more than loops: large, so that what has arrived is
// read at once.
const sharedBuffer = 128 << 10

func newPools(readBuffer int) *pools {
	return &pools{
		read:    bufferPool{size: readBuffer},
		shared:  bufferPool{size: max(readBuffer, sharedBuffer)},
		chunk:   bufferPool{size: chunkSize},
		batches: sync.Pool{New: func() any { b := new(batch); b.clear(); b.call.bind(b); return b }},
		queues:  sync.Pool{New: func() any { return new(queue) }},
	}
}

func (p *pools) batch() *batch { return p.batches.Get().(*batch) }

// putBatch gives a batch back, without the memory of an encoded frame that was unusually large.
func (p *pools) putBatch(b *batch) {
	b.clear()
	if cap(b.scratch) > chunkSize {
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
