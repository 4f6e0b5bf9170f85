package buffer

import (
	"bytes"
	"sync"
)

// Buffer is a pooled piece of memory, of the size of its pool. A buffer belongs to one goroutine at a time.
type Buffer struct {
	B    []byte
	Free bool // no caller uses it: it was released, or Own was called
	refs int  // frames in the buffer; for the queue that fills it
	pool *Pool
	kept bool // Release does not return it to the pool: its owner waits for Free instead
}

// Own makes the caller the owner of b. b is free from now on. Release marks b as free again, but does not return b to its pool.
func (b *Buffer) Own() { b.kept, b.Free = true, true }

// Disown undoes Own: the next Release returns b to its pool.
func (b *Buffer) Disown() { b.kept = false }

// Return gives an owned, free buffer back to its pool. It panics if b is in use or not owned. It does nothing if b is nil.
func (b *Buffer) Return() {
	switch {
	case b == nil:
	case !b.kept || !b.Free:
		panic("buffer: returned while in use")
	default:
		b.Disown()
		b.pool.pool.Put(b)
	}
}

// Release ends the use of the buffer, and returns it to its pool unless it is owned. Releasing a buffer twice is a bug and panics.
func (b *Buffer) Release() {
	if b.Free {
		panic("buffer: released twice")
	}
	b.Free = true
	if !b.kept {
		b.pool.pool.Put(b)
	}
}

// Pool keeps free buffers of one size. Any goroutine may use it.
type Pool struct {
	Size int // in bytes; set when made
	pool sync.Pool
}

// Get returns a buffer whose B has Size bytes. The caller releases it.
func (p *Pool) Get() *Buffer {
	b, ok := p.pool.Get().(*Buffer)
	if !ok {
		return &Buffer{B: make([]byte, p.Size), pool: p}
	}
	b.Free, b.refs, b.B = false, 0, b.B[:cap(b.B)]
	return b
}

// Pools hold the memory that the sessions of a server borrow. An idle session borrows none. Any goroutine may use them.
type Pools struct {
	Read    Pool    // for bytes that arrive
	Shared  Pool    // for bytes that arrive, borrowed for one dispatch of an event loop
	Chunk   Pool    // for queued frames
	classes [3]Pool // for copies larger than a chunk
	batches sync.Pool
	queues  sync.Pool
}

// ChunkSize is the size in bytes of the chunks that queued frames are copied into.
const ChunkSize = 16 << 10

// scratchMax is the most memory in bytes that a pooled batch keeps for encoding.
const scratchMax = 160 << 10

// CopyOf returns a copy of b, and the pooled buffer that contains the copy, or nil if it is allocated. A pooled buffer has at most four times
// the size of b.
func (p *Pools) CopyOf(b []byte) (own []byte, from *Buffer) {
	if class := p.class(len(b)); class != nil {
		from = class.Get()
		return from.B[:copy(from.B, b)], from
	}
	return bytes.Clone(b), nil
}

// class returns the pool whose buffers fit size bytes without much waste, or nil if the caller should allocate.
func (p *Pools) class(size int) *Pool {
	switch {
	case size <= ChunkSize/4:
		return nil
	case size <= ChunkSize:
		return &p.Chunk
	}
	for i := range p.classes {
		if size <= p.classes[i].Size {
			return &p.classes[i]
		}
	}
	return nil
}

// sharedBuffer is the size in bytes of the buffers that event loops read into. There are hardly more of them than loops, so they are large: one
// read then takes everything that has arrived.
const sharedBuffer = 128 << 10

const usualBuffer = 64 << 10

// NewPools returns pools whose buffers for reading have readBuffer bytes. Zero means 64 KiB for goroutines and 128 KiB for event loops.
func NewPools(readBuffer int) *Pools {
	shared := readBuffer
	if readBuffer == 0 {
		readBuffer, shared = usualBuffer, sharedBuffer
	}
	return &Pools{
		Read:    Pool{Size: readBuffer},
		Shared:  Pool{Size: shared},
		Chunk:   Pool{Size: ChunkSize},
		classes: [...]Pool{{Size: 2 * ChunkSize}, {Size: 4 * ChunkSize}, {Size: 8 * ChunkSize}},
		batches: sync.Pool{New: func() any { return NewBatch() }},
		queues:  sync.Pool{New: func() any { return new(Queue) }},
	}
}

// Batch borrows an empty batch.
func (p *Pools) Batch() *Batch { return p.batches.Get().(*Batch) }

// PutBatch gives a batch back. If its Scratch has grown beyond 160 KiB, that memory is dropped.
func (p *Pools) PutBatch(b *Batch) {
	b.Clear()
	b.ClearCorked()
	b.ByReader = false
	if cap(b.Scratch) > scratchMax {
		b.Scratch = nil
	}
	p.batches.Put(b)
}

// Queue borrows an empty queue.
func (p *Pools) Queue() *Queue { return p.queues.Get().(*Queue) }

// PutQueue drops the frames that are left in q, gives q back, and returns the number of dropped bytes.
func (p *Pools) PutQueue(q *Queue) int {
	n := q.Reset()
	p.queues.Put(q)
	return n
}
