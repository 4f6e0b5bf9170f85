package rawstream

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// batchBytes is the memory of a batch that is used again. It has to be more than what grpc-go's buffers count: up to 1 KiB they do not tell when
// they are not used any more.
const batchBytes = 2 << 10

// Batches make the memory of messages that are in flight, and use it again. The zero Batches is ready. It may be used by many senders.
type Batches struct{ pool sync.Pool }

// batch is the memory of messages that are in flight. It is the mem.BufferPool of its buffer, which is how it learns that the buffer is free.
type batch struct {
	memory []byte // of batchBytes; nil if the batch is not used again
	data   []byte
	flight *atomic.Int64
	from   *Batches
}

// of returns the buffer of a batch with some data, and memory that the caller may use for new data. The data becomes the batch's.
func (p *Batches) of(data []byte, flight *atomic.Int64) (buffer mem.Buffer, spare []byte) {
	if len(data) > batchBytes {
		b := &batch{data: data, flight: flight}
		flight.Add(int64(len(data)))
		return mem.NewBuffer(&b.data, b), nil
	}
	b, ok := p.pool.Get().(*batch)
	if !ok {
		b = &batch{memory: make([]byte, 0, batchBytes), from: p}
	}
	b.flight, b.data = flight, append(b.memory, data...)
	flight.Add(int64(len(data)))
	return mem.NewBuffer(&b.data, b), data[:0]
}

// Get implements mem.BufferPool. It is not called: buffers are made by batches only.
func (*batch) Get(length int) *[]byte {
	data := make([]byte, length)
	return &data
}

// Put implements mem.BufferPool: the buffer of the batch is free.
func (b *batch) Put(*[]byte) {
	b.flight.Add(-int64(len(b.data)))
	b.flight, b.data = nil, nil
	if b.memory != nil {
		b.from.pool.Put(b)
	}
}
