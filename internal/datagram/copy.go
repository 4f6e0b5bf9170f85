package datagram

import (
	"sync"

	"github.com/sluice-push/sluice/internal/buffer"
)

// smallCopy is the size in bytes of the memory that Copies keep for reuse.
const smallCopy = 2 << 10

// Copy is a copy of a datagram that waits for its reader. It belongs to the goroutine that made it, then to the inbox, then to the goroutine
// that takes it.
type Copy struct {
	Buffer buffer.Buffer // owned by the copy: Release does not return it to a pool
	N      int           // how many bytes of the buffer are the datagram
	next   *Copy
}

func newCopy(size int) *Copy {
	c := new(Copy)
	c.Buffer.B = make([]byte, size)
	c.Buffer.Own()
	return c
}

// Copies makes copies, and keeps the memory of small ones for reuse. Any goroutine may use it. The zero value is ready.
type Copies struct{ pool sync.Pool }

// Get returns a copy of a datagram.
func (cs *Copies) Get(data []byte) *Copy {
	size := max(len(data), smallCopy)
	c, ok := (*Copy)(nil), false
	if size == smallCopy {
		c, ok = cs.pool.Get().(*Copy)
	}
	if !ok {
		c = newCopy(size)
	}
	c.N = copy(c.Buffer.B, data)
	return c
}

// Put ends the use of a copy, and keeps its memory for reuse if the copy is small.
func (cs *Copies) Put(c *Copy) {
	if c.next = nil; len(c.Buffer.B) == smallCopy {
		cs.pool.Put(c)
	}
}

// Inbox is a queue of the copies that wait for one reader. It has neither a bound nor a lock: its owner sees to both.
type Inbox struct {
	Count int // number of copies
	Size  int // bytes in all copies

	last *Copy // the last copy of a ring: its next is the first
}

// Put adds a copy behind all others.
func (in *Inbox) Put(c *Copy) {
	in.PutFirst(c)
	in.last = c
}

// PutFirst adds a copy before all others.
func (in *Inbox) PutFirst(c *Copy) {
	if in.last == nil {
		in.last = c
	} else {
		c.next = in.last.next
	}
	in.last.next = c
	in.Count++
	in.Size += c.N
}

// Take removes and returns the first copy, or returns nil if there is none.
func (in *Inbox) Take() *Copy {
	if in.last == nil {
		return nil
	}
	c := in.last.next
	if in.last.next = c.next; c == in.last {
		in.last = nil
	}
	in.Count--
	in.Size -= c.N
	return c
}
