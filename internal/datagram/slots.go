package datagram

import (
	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport"
)

// The most that is read at once.
const (
	batchMax    = 64
	batchMemory = 2 << 20
	batchThin   = 64 // so many batches in a row with hardly anything in them let a reader have fewer buffers
)

// Slots are the memory that a socket is read into: one buffer for each datagram of a batch. They begin with one, are more when there was
// more to read, and fewer when there seldom is. They belong to one goroutine at a time.
type Slots struct {
	// Packets are what to read into. The memory of each is one of the buffers.
	Packets []transport.Packet

	pool    *buffer.Pool
	most    int
	buffers []*buffer.Buffer
	thin    int // batches in a row with hardly anything in them
}

// NewSlots makes the slots of a reader of conn, with buffers from pool, which also bound a datagram. Close gives them back.
func NewSlots(conn Conn, pool *buffer.Pool) *Slots {
	sl := &Slots{pool: pool, most: 1}
	if conn.Gathers() {
		sl.most = min(batchMax, max(1, batchMemory/pool.Size))
	}
	sl.resize(1)
	return sl
}

// Buffer returns the buffer that Packets[i] lies in. It stays with the slots when it is released.
func (sl *Slots) Buffer(i int) *buffer.Buffer { return sl.buffers[i] }

// Replace leaves the buffer of Packets[i] to who uses it, for good, and puts another in its place.
func (sl *Slots) Replace(i int) {
	sl.buffers[i] = sl.pool.Get()
	sl.own(i)
}

// Adapt has more slots, or fewer, after a batch of n datagrams. None of the buffers may be in use.
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

// Close gives all buffers back. None may be in use.
func (sl *Slots) Close() { sl.resize(0) }

func (sl *Slots) resize(n int) {
	for len(sl.buffers) < n {
		sl.buffers = append(sl.buffers, sl.pool.Get())
		sl.Packets = append(sl.Packets, transport.Packet{})
		sl.own(len(sl.buffers) - 1)
	}
	for i := n; i < len(sl.buffers); i++ {
		sl.release(i)
		sl.buffers[i], sl.Packets[i] = nil, transport.Packet{}
	}
	sl.buffers, sl.Packets = sl.buffers[:n], sl.Packets[:n]
}

// own makes a buffer stay with the slots.
func (sl *Slots) own(i int) {
	b := sl.buffers[i]
	b.Own()
	sl.Packets[i].Data = b.B[:len(b.B):len(b.B)]
}

// release gives a buffer back.
func (sl *Slots) release(i int) {
	b := sl.buffers[i]
	b.Disown()
	b.Free = false
	b.Release()
}
