package writer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Encoder turns messages into frames.
type Encoder interface {
	// AppendEncode appends the frame of msg to dst.
	AppendEncode(dst, msg []byte) ([]byte, error)
}

// Prefixer is an Encoder whose frames are a header and the message as it is.
type Prefixer interface {
	// AppendHeader appends what AppendEncode would append before msg.
	AppendHeader(dst, msg []byte) ([]byte, error)
}

// ErrNoEncoder is the error of Send when there is no encoder.
var ErrNoEncoder = errors.New("session: no codec")

const (
	bigFrame   = 8 << 10 // a frame of this size is better written from where it lies than copied
	frameSlack = 16      // how many bytes encoding is expected to add
)

// Send encodes msg with e, or with the Writer's encoder if e is nil, and writes the frame or queues it. Encoders are called with the lock held.
//
// A handler calls Send near the end of its goroutine's first stack, which decides how much memory a session holds. So the stack of corkFor is not
// below that of the functions that encode.
func (w *Writer) Send(e Encoder, msg []byte) error {
	w.Lock()
	if e == nil {
		e = w.encoder
	}
	cork := w.corkFor(len(msg) + frameSlack)
	if cork == nil || !w.fitsCork(e, msg) {
		return w.sendAndUnlock(cork != nil, e, msg)
	}
	return w.encodeAndUnlock(cork, e, msg)
}

// fitsCork reports whether the frame of msg is copied into the cork, not written from where it lies.
//
//go:noinline
func (w *Writer) fitsCork(e Encoder, msg []byte) bool {
	return e != nil && w.phase == accepting && (len(msg) < bigFrame || prefixer(e, msg) == nil || !w.owner.Conn().Direct())
}

// encodeAndUnlock adds the frame of msg to the cork, and unlocks w, also when e panics.
func (w *Writer) encodeAndUnlock(cork *buffer.Batch, e Encoder, msg []byte) error {
	defer w.Unlock()
	out, err := e.AppendEncode(cork.Scratch, msg)
	if err != nil {
		return encodeError(err)
	}
	cork.Scratch = out
	cork.MarkCorked(false)
	return nil
}

// sendAndUnlock is send, and unlocks w, also when e panics.
func (w *Writer) sendAndUnlock(flush bool, e Encoder, msg []byte) error {
	defer w.Unlock()
	return w.send(flush, e, msg)
}

// send is Send for a frame that is not corked.
func (w *Writer) send(flush bool, e Encoder, msg []byte) error {
	if flush {
		w.flushCork()
	}
	if w.phase != accepting {
		return w.owner.Err()
	}
	if e == nil {
		return ErrNoEncoder
	}
	if w.state == Idle && w.owner.Conn().Direct() {
		return w.encodeAndWrite(e, msg)
	}
	admitted, err := w.admit(len(msg))
	if err != nil {
		return err
	}
	if !admitted {
		out, err := encode(e, nil, msg)
		if err != nil {
			return err
		}
		return w.wait(buffer.Frame{B: out, Cost: cap(out)})
	}
	q := w.queue()
	out, err := encode(e, q.Space(len(msg)+frameSlack, &w.cfg.Pools.Chunk), msg)
	if err == nil {
		q.AddOwned(out, w.now(), false)
	}
	w.flushQueued()
	return err
}

// prefixer returns e as a Prefixer if it is one and msg is so large that it should not be copied.
func prefixer(e Encoder, msg []byte) (p Prefixer) {
	if len(msg) >= bigFrame {
		p, _ = e.(Prefixer)
	}
	return p
}

func encode(e Encoder, dst, msg []byte) ([]byte, error) {
	out, err := e.AppendEncode(dst, msg)
	if err != nil {
		err = encodeError(err)
	}
	return out, err
}

// encodeError is not inlined, so that its callers need less stack. What a session uses of its goroutine's stack decides how much memory the
// session holds.
//
//go:noinline
func encodeError(err error) error { return fmt.Errorf("session: encode: %w", err) }

// encodeAndWrite writes the frame of a message on an idle connection.
func (w *Writer) encodeAndWrite(e Encoder, msg []byte) error {
	b := w.cfg.Pools.Batch()
	var head, rest []byte
	var err error
	if p := prefixer(e, msg); p != nil {
		if head, err = p.AppendHeader(b.Scratch[:0], msg); err != nil {
			err = encodeError(err)
		}
		rest = msg
	} else {
		head, err = encode(e, b.Scratch[:0], msg)
	}
	if err != nil {
		w.cfg.Pools.PutBatch(b)
		return err
	}
	b.Scratch = head[:0]
	return w.writeNow(b, head, rest, false)
}

// Write writes a frame or queues it. A shared frame never changes any more, and may be kept without being copied.
func (w *Writer) Write(frame []byte, shared bool) error {
	w.Lock()
	defer w.Unlock()
	cork := w.corkFor(len(frame))
	if cork != nil && shared && len(frame) >= bigFrame && w.owner.Conn().Direct() {
		w.flushCork()
		cork = nil
	}
	if w.phase != accepting {
		return w.owner.Err()
	}
	if len(frame) == 0 {
		return nil
	}
	if cork != nil {
		cork.AppendCorked(frame, false)
		return nil
	}
	return w.write(frame, shared)
}

// write is Write for a frame that is not corked.
func (w *Writer) write(frame []byte, shared bool) error {
	if w.state == Idle && w.owner.Conn().Direct() {
		return w.writeNow(w.cfg.Pools.Batch(), nil, frame, shared)
	}
	admitted, err := w.admit(len(frame))
	switch {
	case err != nil:
		return err
	case !admitted && shared:
		return w.wait(buffer.Frame{B: frame})
	case !admitted:
		own := bytes.Clone(frame)
		return w.wait(buffer.Frame{B: own, Cost: cap(own)})
	}
	w.enqueue(frame, shared, false)
	w.flushQueued()
	return nil
}

// Reply writes what a codec answers by itself, whatever the policy says. If it does not find room, messages wait: see Overloaded.
func (w *Writer) Reply(frame []byte) {
	w.Lock()
	defer w.Unlock()
	cork := w.corkFor(len(frame))
	if w.phase != accepting {
		return
	}
	if cork != nil {
		cork.AppendCorked(frame, true)
		return
	}
	isFull := w.isFull(len(frame))
	w.enqueue(frame, false, true)
	if w.flushQueued(); isFull || w.state == WaitWritable {
		w.pause()
	}
}

// enqueue adds a frame to the queue.
func (w *Writer) enqueue(frame []byte, shared, kept bool) {
	if shared {
		w.queue().Add(buffer.Frame{B: frame, At: w.now(), Kept: kept})
	} else {
		w.queue().AddCopy(frame, w.now(), kept, &w.cfg.Pools.Chunk)
	}
}

// writeNow writes one frame, in two parts, on an idle connection. It gives b back.
func (w *Writer) writeNow(b *buffer.Batch, head, p []byte, shared bool) error {
	room, alive := true, true
	for len(head)+len(p) > 0 && room && alive {
		if b.Add(head) == len(head) {
			b.Add(p)
		}
		var n int
		n, room, alive = w.tryWrite(b)
		b.Clear()
		cut := min(n, len(head))
		head, p = head[cut:], p[n-cut:]
	}
	left := len(head) + len(p)
	if alive && left > 0 {
		if len(head) > 0 {
			p, shared = append(head, p...), false
		}
		w.queueRest(p, shared)
	}
	w.cfg.Pools.PutBatch(b)
	w.finishWrite(room)
	if !alive && left > 0 {
		return w.owner.Err()
	}
	return nil
}

// queueRest puts the rest of a frame at the front of the queue. Its first bytes have been written.
func (w *Writer) queueRest(p []byte, shared bool) {
	f := buffer.Frame{B: p, At: w.now(), Kept: true}
	if !shared {
		f.B, f.From = w.cfg.Pools.CopyOf(p)
	}
	w.queue().AddFirst(f)
}
