package buffer

import "slices"

const (
	batchParts = 64        // pieces in one write
	batchBytes = 128 << 10 // bytes in one write: a raw write is not preempted, so it must be short
)

// Batch is what goes into one write: borrowed pieces of bytes. It is pooled, together with what the platform needs for the call. It
// belongs to one goroutine at a time.
type Batch struct {
	Parts [][]byte // changed by Add and Clear only
	Size  int      // bytes in Parts
	Sent  int      // what the socket took in the last write: over TLS other bytes than those in Parts

	Scratch []byte // for a frame that is encoded and written at once, or for several that are gathered
	Ends    []int  // of those that are gathered: where they end, doubled, plus one if they must not be dropped
	Inside  bool   // for the owner: it is written by who reads from the connection, which cannot be closed meanwhile

	array [batchParts][]byte
	call  call
}

// NewBatch makes one.
func NewBatch() *Batch {
	b := new(Batch)
	b.Clear()
	b.call.bind(b)
	return b
}

// Add appends as much of p as fits and returns how much that was. Pieces that are neighbours in memory become one.
func (b *Batch) Add(p []byte) int {
	p = p[:min(len(p), batchBytes-b.Size)]
	if len(p) == 0 {
		return 0
	}
	if n := len(b.Parts); n > 0 {
		last := b.Parts[n-1]
		if cap(last) > len(last) && cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0] {
			b.Parts[n-1] = last[:len(last)+len(p)]
			b.Size += len(p)
			return len(p)
		}
		if n == batchParts {
			return 0
		}
	}
	b.Parts = append(b.Parts, p)
	b.Size += len(p)
	return len(p)
}

// Clear forgets the pieces.
func (b *Batch) Clear() {
	clear(b.Parts)
	b.Parts, b.Size = b.array[:0], 0
}

// Gather adds a frame to what is gathered.
func (b *Batch) Gather(p []byte, kept bool) {
	b.Scratch = append(b.Scratch, p...)
	b.Gathered(kept)
}

// Gathered notes that what has come behind the last frame in Scratch is another.
func (b *Batch) Gathered(kept bool) {
	end := len(b.Scratch) << 1
	if kept {
		end |= 1
	}
	if len(b.Ends) == cap(b.Ends) {
		b.grow() // by a call, which needs less of its caller's stack
	}
	b.Ends = b.Ends[:len(b.Ends)+1]
	b.Ends[len(b.Ends)-1] = end
}

//go:noinline
func (b *Batch) grow() { b.Ends = slices.Grow(b.Ends, 1) }

// Forget empties what is gathered.
func (b *Batch) Forget() { b.Scratch, b.Ends = b.Scratch[:0], b.Ends[:0] }
