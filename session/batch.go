package session

const (
	batchParts = 64        // pieces in one write
	batchBytes = 128 << 10 // bytes in one write: a raw write is not preempted, so it must be short
)

// batch is what goes into one write: borrowed pieces of bytes. It is pooled, together with what the platform needs for the call.
type batch struct {
	parts [][]byte
	size  int // bytes in parts

	scratch []byte // for a frame that is encoded and written at once, or for several that are gathered
	inside  bool   // it is written by the goroutine in stream.each, from within got: the connection cannot be closed meanwhile
	ends    []int  // of those that are gathered: where they end, doubled, plus one if they must not be dropped
	array   [batchParts][]byte
	call    rawCall
}

// add appends as much of p as fits and returns how much that was. Pieces that are neighbours in memory become one.
func (b *batch) add(p []byte) int {
	p = p[:min(len(p), batchBytes-b.size)]
	if len(p) == 0 {
		return 0
	}
	if n := len(b.parts); n > 0 {
		last := b.parts[n-1]
		if cap(last) > len(last) && cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0] {
			b.parts[n-1] = last[:len(last)+len(p)]
			b.size += len(p)
			return len(p)
		}
		if n == batchParts {
			return 0
		}
	}
	b.parts = append(b.parts, p)
	b.size += len(p)
	return len(p)
}

// clear forgets the pieces.
func (b *batch) clear() {
	clear(b.parts)
	b.parts, b.size = b.array[:0], 0
}
