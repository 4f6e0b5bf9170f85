package wire

import "sync"

// work is what a codec has in hand. It comes from a pool and goes back when there is nothing in it, so that connections between two
// messages, which are nearly all, hold none. It is owned by the reader.
type work struct {
	hs    *handshake // the request is awaited; first, or nil
	first handshake
	err   error // the verdict; from then on nothing is decoded

	// The message under way.
	kind      Opcode // OpText or OpBinary from the first fragment on; OpContinuation when no message is under way
	deflated  bool   // it is compressed
	fragments int
	message   []byte // the payloads of its fragments; grows with what arrived, never with what was announced
	total     int    // their length, also where message does not keep them
	text      textCheck

	// The frame under way.
	checked   int    // bytes of its payload that text has seen already
	streaming bool   // its payload is returned in pieces: see pieces.go
	fin       bool   // of its header
	left      int    // bytes of its payload that were not returned
	key       uint32 // for unmask, as it applies from there on

	// What AppendReplies has to give.
	replies []byte
	pongAt  int // where the pong at the end of replies starts, when hasPong
	closeAt int // where the close frame at their end starts, when closes
	hasPong bool
	closes  bool

	req  *Request // was just accepted
	lent []byte   // the memory of the message that was returned last, if it is the codec's
}

// nothing is what a codec without work has in hand. It is never changed.
var nothing work

var works = sync.Pool{New: func() any { return new(work) }}

// inHand is the work to read from.
func (c *Codec) inHand() *work {
	if c.work == nil {
		return &nothing
	}
	return c.work
}

// under is the work to write to.
func (c *Codec) under() *work {
	if c.work == nil {
		c.work = works.Get().(*work)
	}
	return c.work
}

// rest gives the work back if there is nothing in it.
func (c *Codec) rest() {
	w := c.work
	if w.hs != nil || w.req != nil || w.err != nil || w.kind != OpContinuation || w.checked > 0 || w.streaming || len(w.replies) > 0 || w.lent != nil {
		return
	}
	replies := w.replies[:0]
	if cap(replies) > 4*maxControl { // a handshake's response
		replies = nil
	}
	*w = work{replies: replies}
	works.Put(w)
	c.work = nil
}

// giveBack ends the life of the message that was returned last.
func (w *work) giveBack() {
	putBuffer(w.lent)
	w.lent, w.req = nil, nil
}

// Memory for messages that are put together or inflated.
const (
	bufferMin = 4 << 10
	bufferMax = 1 << 20 // larger ones are left to the garbage collector
)

var buffers = sync.Pool{New: func() any { return new(sharedBuffer) }}

// sharedBuffer carries a buffer through the pool; boxes are those that are empty.
type sharedBuffer struct{ b []byte }

var boxes = sync.Pool{New: func() any { return new(sharedBuffer) }}

// getBuffer returns an empty buffer with memory.
func getBuffer() []byte {
	box := buffers.Get().(*sharedBuffer)
	b := box.b
	box.b = nil
	boxes.Put(box)
	if b == nil {
		b = make([]byte, 0, bufferMin)
	}
	return b
}

// putBuffer takes one back that nobody uses any more; nil is nothing.
func putBuffer(b []byte) {
	if cap(b) == 0 || cap(b) > bufferMax {
		return
	}
	box := boxes.Get().(*sharedBuffer)
	box.b = b[:0]
	buffers.Put(box)
}

// appendShared appends to a buffer of the pool, of which nil is a new one. A peer may have it held for long, so a large one is not lent for
// little.
func appendShared(b, p []byte) []byte {
	if b == nil {
		if b = getBuffer(); cap(b) > max(2*bufferMin, 8*len(p)) {
			putBuffer(b)
			b = make([]byte, 0, bufferMin)
		}
	}
	return append(b, p...)
}
