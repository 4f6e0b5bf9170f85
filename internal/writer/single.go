package writer

import "github.com/sluice-push/sluice/internal/buffer"

// Nearly every write of a fan-out and nearly every answer is one frame for a socket that has room. These writes have a short path without batch
// and queue. In a fan-out to thousands of sessions the code and data of each session are cold, and every line of cache counts.

// canWriteSingle reports whether a frame can go straight to the socket: the Writer is idle, and nothing is corked.
func (w *Writer) canWriteSingle() bool {
	return w.state == Idle && w.fd >= 0 && w.q == nil && w.phase == accepting && (w.cork == nil || len(w.cork.Scratch) == 0)
}

// finishSingle accounts for n bytes of a single frame, which is all of it or not. If everything was written and nothing was queued meanwhile, it
// leaves the Writing state and returns true.
func (w *Writer) finishSingle(isAll bool, n int, failed error) (done bool) {
	w.owner.Wrote(n)
	if failed != nil {
		w.owner.Fail(Broken, failed)
	}
	if !isAll || w.q != nil || w.phase != accepting {
		return false
	}
	w.becomeIdle()
	return true
}

// tryWriteSingle is TryWrite of one frame.
func (w *Writer) tryWriteSingle(frame []byte) (taken int, err error) {
	w.state = Writing
	fd := w.fd
	w.Unlock()
	n, err := sendTo(fd, frame)
	w.Lock()
	return w.tried(frame, n, err)
}

// tried ends a TryWrite of one frame, of which n bytes were written in the Writing state.
func (w *Writer) tried(frame []byte, n int, failed error) (taken int, err error) {
	if w.finishSingle(n == len(frame), n, failed) {
		return 1, nil
	}
	if n > 0 {
		taken = 1
		if n < len(frame) {
			w.queueRest(frame[n:], true)
		}
	}
	w.refuse(1 - taken)
	w.finishWrite(n == len(frame))
	if taken == 0 && w.phase != accepting {
		return 0, w.owner.Err()
	}
	return taken, nil
}

// # Batched writes to many connections
//
// The same frame, or one for each, goes to many connections in three steps, for some dozens of Writers at a time: Begin for each, then as many
// system calls with nothing in between, then End for each. So the code of each step stays in the cache. No lock is held meanwhile. A
// sender that has another frame for one of the Writers queues it, and End writes it.

// MaxSingle is the largest frame in bytes for a batched write: its system calls are not preempted.
const MaxSingle = 16 << 10

// BeginSingle enters the Writing state if a frame of size bytes can go straight to the socket, and reports whether it has.
func (w *Writer) BeginSingle(size int) bool {
	w.Lock()
	defer w.Unlock()
	if size == 0 || size > MaxSingle || !w.canWriteSingle() {
		return false
	}
	w.state = Writing
	return true
}

// WriteSingle writes a frame after BeginSingle or EncodeSingle, and returns how many bytes the socket took. The descriptor stays open, because a
// connection is not closed while its Writer is in the Writing state.
func (w *Writer) WriteSingle(frame []byte) (int, error) { return sendTo(w.fd, frame) }

// EndTry ends BeginSingle for a frame as TryWrite would, and reports whether it was taken.
func (w *Writer) EndTry(frame []byte, n int, err error) bool {
	w.Lock()
	defer w.Unlock()
	taken, _ := w.tried(frame, n, err)
	return taken == 1
}

// EncodeSingle is BeginSingle for a message: its frame is appended to the scratch memory of b, or is msg itself if e is a Prefixer and has no
// header. If begun is false without an error, the message is to be sent by Send. The lock is held while e is called.
func (w *Writer) EncodeSingle(e Encoder, b *buffer.Batch, msg []byte) (frame []byte, begun bool, err error) {
	w.Lock()
	defer w.Unlock() // also when e panics
	if len(msg) > MaxSingle || !w.canWriteSingle() || w.cork != nil {
		return nil, false, nil
	}
	if e == nil {
		e = w.encoder
	}
	if e == nil {
		return nil, false, ErrNoEncoder
	}
	from := len(b.Scratch)
	p, _ := e.(Prefixer)
	var out []byte
	if p != nil {
		out, err = p.AppendHeader(b.Scratch, msg)
	} else {
		out, err = e.AppendEncode(b.Scratch, msg)
	}
	if err != nil {
		return nil, false, encodeError(err)
	}
	if p != nil && len(out) > from {
		out = append(out, msg...)
	}
	b.Scratch = out
	if frame = out[from:]; p != nil && len(frame) == 0 {
		frame = msg
	}
	if len(frame) > 0 {
		w.state = Writing
	}
	return frame, true, nil
}

// EndSend ends EncodeSingle as Send would: what the socket did not take of the frame is copied and queued.
func (w *Writer) EndSend(frame []byte, n int, err error) error {
	w.Lock()
	defer w.Unlock()
	if w.finishSingle(n == len(frame), n, err) {
		return nil
	}
	rest, isOver := frame[n:], w.phase == aborted
	if len(rest) > 0 && !isOver {
		w.queueRest(rest, false)
	}
	w.finishWrite(len(rest) == 0)
	if isOver && len(rest) > 0 {
		return w.owner.Err()
	}
	return nil
}
