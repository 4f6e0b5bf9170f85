package datagram

import (
	"sync"

	"github.com/sluice-push/sluice/internal/buffer"
)

// smallLetter is the most bytes in a letter whose memory is kept.
const smallLetter = 2 << 10

// Letter is a copy of a datagram that waits for its reader. It belongs to who wrote it, then to the inbox, then to who takes it.
type Letter struct {
	Buffer buffer.Buffer // stays with the letter when it is released
	N      int           // how many bytes of the buffer are the datagram
	next   *Letter
}

func newLetter(size int) *Letter {
	l := new(Letter)
	l.Buffer.B = make([]byte, size)
	l.Buffer.Own()
	return l
}

// Letters write letters, and keep the memory of small ones. Any goroutine may use them, and the zero value.
type Letters struct{ pool sync.Pool }

// Write copies a datagram.
func (ls *Letters) Write(data []byte) *Letter {
	size := max(len(data), smallLetter)
	l, ok := (*Letter)(nil), false
	if size == smallLetter {
		l, ok = ls.pool.Get().(*Letter)
	}
	if !ok {
		l = newLetter(size)
	}
	l.N = copy(l.Buffer.B, data)
	return l
}

// Burn takes the memory of a letter back.
func (ls *Letters) Burn(l *Letter) {
	if l.next = nil; len(l.Buffer.B) == smallLetter {
		ls.pool.Put(l)
	}
}

// Inbox are the letters that wait for one reader, in order. It has no bound and no lock of its own: both are its owner's.
type Inbox struct {
	Count int // letters
	Size  int // bytes in them

	last *Letter // whose next is the first
}

// Put puts a letter behind all others.
func (in *Inbox) Put(l *Letter) {
	in.PutFirst(l)
	in.last = l
}

// PutFirst puts a letter before all others.
func (in *Inbox) PutFirst(l *Letter) {
	if in.last == nil {
		in.last = l
	} else {
		l.next = in.last.next
	}
	in.last.next = l
	in.Count++
	in.Size += l.N
}

// Take takes the first letter out, or returns nil.
func (in *Inbox) Take() *Letter {
	if in.last == nil {
		return nil
	}
	l := in.last.next
	if in.last.next = l.next; l == in.last {
		in.last = nil
	}
	in.Count--
	in.Size -= l.N
	return l
}
