package buffer

import "slices"

const (
	batchParts = 64        // pieces in one write
	batchBytes = 128 << 10 // bytes in one write: a raw write is not preempted, so it must be short
)

// Batch holds the byte slices that one system call writes, and the call's own memory, such as the I/O vector. The slices are borrowed. Batches
// are pooled: see [Pools]. A batch belongs to one goroutine at a time.
type Batch struct {
	Parts [][]byte // only Add and Clear change it
	Size  int      // bytes in Parts
	Sent  int      // bytes that the socket took in the last write; over TLS these are not the bytes in Parts

	Scratch    []byte // for one frame that is encoded and written at once, or for several corked frames
	CorkedEnds []int  // for each corked frame its end in Scratch, doubled, plus one if the frame must not be dropped
	ByReader   bool   // for the owner: the goroutine that reads the connection writes the batch, so the connection cannot be closed meanwhile

	array [batchParts][]byte
	call  call
}

// NewBatch returns an empty batch.
func NewBatch() *Batch {
	b := new(Batch)
	b.Clear()
	b.call.bind(b)
	return b
}

// Add appends as much of p as fits, and returns how many bytes that is. Two slices that are neighbours in memory become one. The batch borrows
// p.
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

// Clear removes all slices. Scratch and CorkedEnds stay.
func (b *Batch) Clear() {
	clear(b.Parts)
	b.Parts, b.Size = b.array[:0], 0
}

// AppendCorked copies a corked frame to the end of Scratch. If kept is set, the frame must not be dropped.
func (b *Batch) AppendCorked(p []byte, kept bool) {
	b.Scratch = append(b.Scratch, p...)
	b.MarkCorked(kept)
}

// MarkCorked records that the caller has appended a corked frame to Scratch.
func (b *Batch) MarkCorked(kept bool) {
	end := len(b.Scratch) << 1
	if kept {
		end |= 1
	}
	if len(b.CorkedEnds) == cap(b.CorkedEnds) {
		b.grow() // in a call of its own, because growing inline would enlarge the stack frame of every caller
	}
	b.CorkedEnds = b.CorkedEnds[:len(b.CorkedEnds)+1]
	b.CorkedEnds[len(b.CorkedEnds)-1] = end
}

//go:noinline
func (b *Batch) grow() { b.CorkedEnds = slices.Grow(b.CorkedEnds, 1) }

// ClearCorked removes all corked frames.
func (b *Batch) ClearCorked() { b.Scratch, b.CorkedEnds = b.Scratch[:0], b.CorkedEnds[:0] }
