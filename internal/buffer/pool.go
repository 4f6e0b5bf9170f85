package buffer

import (
	"bytes"
	"sync"
)

// Buffer is a pooled piece of memory of the size of its pool. It belongs to one goroutine at a time.
type Buffer struct {
	B    []byte
	Free bool // it was released
	refs int  // frames that lie in it; owned by the queue that fills it
	pool *Pool
	kept bool // it is not given back: its owner looks whether it is free
}

// Own makes b stay with the caller when it is released: it is free from now on, and whenever it was released.
func (b *Buffer) Own() { b.kept, b.Free = true, true }

// Disown has b given back to its pool when it is released.
func (b *Buffer) Disown() { b.kept = false }

// Return gives a buffer that is owned and free back to its pool; another one is a bug and panics. Of none, nil, nothing is given back.
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

// Release gives the buffer back. Releasing it twice is a bug and panics.
func (b *Buffer) Release() {
	if b.Free {
		panic("buffer: released twice")
	}
	b.Free = true
	if !b.kept {
		b.pool.pool.Put(b)
	}
}

// Pool keeps buffers of one size. Any goroutine may use it.
type Pool struct {
	Size int // in bytes; set when made
	pool sync.Pool
}

// Get returns a buffer whose B has the pool's size.
func (p *Pool) Get() *Buffer {
	b, ok := p.pool.Get().(*Buffer)
	if !ok {
		return &Buffer{B: make([]byte, p.Size), pool: p}
	}
	b.Free, b.refs, b.B = false, 0, b.B[:cap(b.B)]
	return b
}

// Pools are what the sessions of a server borrow from. An idle session holds nothing of it. Any goroutine may use them.
type Pools struct {
	Read    Pool    // for bytes that arrive
	Shared  Pool    // the same, borrowed for one turn in a loop
	Chunk   Pool    // for frames that wait
	classes [3]Pool // for more than a chunk of what is put aside
	batches sync.Pool
	queues  sync.Pool
}

// ChunkSize is the size in bytes of the chunks that frames which wait lie in.
const ChunkSize = 16 << 10

// scratchMax is the most memory for encoding that is kept.
const scratchMax = 160 << 10

// CopyOf returns a copy of b and the buffer it lies in, if it was borrowed. Much more memory than that is not taken.
func (p *Pools) CopyOf(b []byte) (own []byte, from *Buffer) {
	if class := p.class(len(b)); class != nil {
		from = class.Get()
		return from.B[:copy(from.B, b)], from
	}
	return bytes.Clone(b), nil
}

// class returns the pool whose buffers suit size bytes, or nil when memory of their own does.
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

// sharedBuffer is the size of the buffers of loops, of which there are hardly more than loops: large, so that what has arrived is
// read at once.
const sharedBuffer = 128 << 10

const usualBuffer = 64 << 10

// NewPools makes pools whose buffers for reading are of readBuffer bytes; zero is 64 KiB, and 128 KiB for loops.
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

// PutBatch gives a batch back, without the memory of an encoded frame that was unusually large.
func (p *Pools) PutBatch(b *Batch) {
	b.Clear()
	b.Forget()
	b.Inside = false
	if cap(b.Scratch) > scratchMax {
		b.Scratch = nil
	}
	p.batches.Put(b)
}

// Queue borrows an empty queue.
func (p *Pools) Queue() *Queue { return p.queues.Get().(*Queue) }

// PutQueue drops what is left in q, gives q back, and returns how many bytes it dropped.
func (p *Pools) PutQueue(q *Queue) int {
	n := q.Reset()
	p.queues.Put(q)
	return n
}
