package wire

import "sync"

// work is the state of a codec that is within a handshake, a message or a reply. It comes from a pool and returns to it when it is empty, so
// that connections between two messages, which are nearly all, hold none. The reader owns it.
type work struct {
	hs    *handshake // set while the request is awaited; points to first
	first handshake
	err   error // the final error; from then on nothing is decoded

	// The current message.
	kind      Opcode // OpText or OpBinary from the first fragment on; OpContinuation between two messages
	deflated  bool   // the message is compressed
	fragments int
	message   []byte // the payloads of the fragments; grows with the bytes that have arrived, never with an announced length
	total     int    // the size of the payloads, also if message does not keep them
	text      textCheck

	// The current frame.
	checked   int    // bytes of the payload that text has checked already
	streaming bool   // the payload is returned in pieces: see pieces.go
	fin       bool   // the fin bit of its header
	left      int    // bytes of the payload that were not returned yet
	key       uint32 // the key for the rest of the payload

	// The replies for AppendReplies.
	replies []byte
	pongAt  int // with hasPong, where the pong at the end of replies starts
	closeAt int // with closes, where the close frame at the end of replies starts
	hasPong bool
	closes  bool

	req  *Request // the request that was just accepted
	lent []byte   // the memory of the last returned message, if it belongs to the codec
}

// noWork is the work of a codec that has none. It is never changed.
var noWork work

var works = sync.Pool{New: func() any { return new(work) }}

// currentWork returns the work for reading.
func (c *Codec) currentWork() *work {
	if c.work == nil {
		return &noWork
	}
	return c.work
}

// ensureWork returns the work for writing, and takes one from the pool if there is none.
func (c *Codec) ensureWork() *work {
	if c.work == nil {
		c.work = works.Get().(*work)
	}
	return c.work
}

// releaseWork returns the work to the pool if it is empty.
func (c *Codec) releaseWork() {
	w := c.work
	if w.hs != nil || w.req != nil || w.err != nil || w.kind != OpContinuation || w.checked > 0 || w.streaming || len(w.replies) > 0 || w.lent != nil {
		return
	}
	replies := w.replies[:0]
	if cap(replies) > 4*maxControl { // it was a handshake's response
		replies = nil
	}
	*w = work{replies: replies}
	works.Put(w)
	c.work = nil
}

// freeMessage frees the last returned message.
func (w *work) freeMessage() {
	putBuffer(w.lent)
	w.lent, w.req = nil, nil
}

// Buffers for messages that are joined or inflated.
const (
	bufferMin = 4 << 10
	bufferMax = 1 << 20 // larger ones are left to the garbage collector
)

var buffers = sync.Pool{New: func() any { return new(sharedBuffer) }}

// sharedBuffer carries a buffer through the pool without an allocation. The pool boxes holds those without a buffer.
type sharedBuffer struct{ b []byte }

var boxes = sync.Pool{New: func() any { return new(sharedBuffer) }}

// getBuffer returns an empty buffer with capacity.
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

// putBuffer returns an unused buffer to the pool. A nil buffer is ignored.
func putBuffer(b []byte) {
	if cap(b) == 0 || cap(b) > bufferMax {
		return
	}
	box := boxes.Get().(*sharedBuffer)
	box.b = b[:0]
	buffers.Put(box)
}

// appendShared appends to a pooled buffer; nil means a new one. A peer can make the codec hold the buffer for long, so appendShared does not use
// a large pooled buffer for a small payload.
func appendShared(b, p []byte) []byte {
	if b == nil {
		if b = getBuffer(); cap(b) > max(2*bufferMin, 8*len(p)) {
			putBuffer(b)
			b = make([]byte, 0, bufferMin)
		}
	}
	return append(b, p...)
}
