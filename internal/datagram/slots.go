package datagram

import (
	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport/udp"
)

// The bounds of one read.
const (
	batchMax    = 64
	batchMemory = 2 << 20
	batchThin   = 64 // after this many nearly empty batches in a row, a reader has fewer buffers
)

// Slots are the memory that a socket is read into: one buffer for each datagram of a batch. A reader begins with one slot. Full batches double
// the slots, and many nearly empty batches in a row halve them. Slots belong to one goroutine at a time.
type Slots struct {
	// Packets is the argument of a read. The memory of each packet is one of the buffers.
	Packets []udp.Packet

	pool    *buffer.Pool
	most    int
	buffers []*buffer.Buffer
	thin    int // nearly empty batches in a row
}

// NewSlots returns the slots of a reader of conn, with buffers from pool. The size of these bounds the size of a datagram. Close gives the
// buffers back.
func NewSlots(conn Conn, pool *buffer.Pool) *Slots {
	sl := &Slots{pool: pool, most: 1}
	if conn.SendsBatches() {
		sl.most = min(batchMax, max(1, batchMemory/pool.Size))
	}
	sl.resize(1)
	return sl
}

// Buffer returns the buffer that contains Packets[i]. Releasing it leaves it with the slots.
func (sl *Slots) Buffer(i int) *buffer.Buffer { return sl.buffers[i] }

// Replace gives the buffer of Packets[i] away, to its user, and puts another buffer in its place.
func (sl *Slots) Replace(i int) {
	sl.buffers[i] = sl.pool.Get()
	sl.own(i)
}

// Adapt changes the number of slots after a batch of n datagrams. No buffer may be in use.
func (sl *Slots) Adapt(n int) {
	have := len(sl.buffers)
	switch {
	case n == have:
		sl.thin = 0
		if n < sl.most {
			sl.resize(min(2*n, sl.most))
		}
	case n > have/8:
		sl.thin = 0
	default:
		if sl.thin++; sl.thin >= batchThin {
			sl.thin = 0
			sl.resize(max(1, have/2))
		}
	}
}

// Close gives all buffers back. No buffer may be in use.
func (sl *Slots) Close() { sl.resize(0) }

func (sl *Slots) resize(n int) {
	for len(sl.buffers) < n {
		sl.buffers = append(sl.buffers, sl.pool.Get())
		sl.Packets = append(sl.Packets, udp.Packet{})
		sl.own(len(sl.buffers) - 1)
	}
	for i := n; i < len(sl.buffers); i++ {
		sl.release(i)
		sl.buffers[i], sl.Packets[i] = nil, udp.Packet{}
	}
	sl.buffers, sl.Packets = sl.buffers[:n], sl.Packets[:n]
}

// own makes a buffer stay with the slots when it is released.
func (sl *Slots) own(i int) {
	b := sl.buffers[i]
	b.Own()
	sl.Packets[i].Data = b.B[:len(b.B):len(b.B)]
}

// release gives a buffer back to its pool.
func (sl *Slots) release(i int) {
	b := sl.buffers[i]
	b.Disown()
	b.Free = false
	b.Release()
}
