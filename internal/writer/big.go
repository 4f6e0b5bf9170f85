package writer

import "github.com/sluice-push/sluice/internal/buffer"

// A big frame is a file, or memory that is not worth being copied. It stands in the queue like any other frame but takes no memory there, and its
// caller waits until nothing refers to it any more. It is written in steps, between which other goroutines run.

// WriteBig queues a big frame behind everything else, whatever the policy says, and waits until it is finished.
func (w *Writer) WriteBig(l *buffer.BigFrame) error {
	w.Lock()
	defer w.Unlock()
	if w.state == Idle {
		w.flushCork()
	}
	if w.phase != accepting {
		return w.owner.Err()
	}
	f := buffer.Frame{Big: l, At: w.now(), Kept: true}
	if w.waiters != nil {
		if err := w.wait(f); err != nil {
			return err
		}
	} else {
		w.queue().Add(f)
	}
	w.flushQueued()
	select {
	case err := <-l.Done():
		return err
	default:
	}
	handedOff := w.owner.WillBlock()
	w.Unlock()
	defer w.Lock()
	if handedOff {
		w.owner.HandedOff()
	}
	return <-l.Done()
}

// tryWriteBig enters the Writing state and offers the big frame at the front to the connection, without the lock. It reports whether there may be
// room for more.
func (w *Writer) tryWriteBig(l *buffer.BigFrame) (room bool) {
	conn := w.owner.Conn()
	w.state = Writing
	conn.BeginBig(l)
	l.InFlight = true
	w.Unlock()
	n, err := conn.TryWriteBig(l)
	w.owner.Wrote(n)
	w.Lock()
	if w.endBig(l); err != nil {
		w.owner.Fail(Broken, err)
	}
	return n > 0 && !conn.HasPending()
}

// endBig is called when a part of l, or all of it, has been written.
func (w *Writer) endBig(l *buffer.BigFrame) {
	l.InFlight = false
	switch {
	case w.phase == aborted:
		w.AbortBig()
	case l.Remaining() == 0:
		w.q.RemoveBig()
		if w.owner.Conn().EndBig(l) {
			l.Finish(nil)
		}
		w.admitWaiters()
	}
}
