package writer

import "math"

// Back-pressure: while many frames wait for the peer, its messages are not handled and its connection is not read. So a handler seldom has to
// wait for a peer that sends requests and does not read the replies, and such a peer costs about half a queue. TCP passes the pressure on to the
// peer, and WriteTimeout ends it.
//
// The pressure ends when as many bytes have been written as waited when it began. It does not depend on the bytes that wait then, because other
// goroutines may send to the same connection all the time.

// Overloaded reports whether so many bytes wait that no more messages of the peer should be handled. When it becomes false, Resumed of the owner
// is called. It may be called with and without the lock.
func (w *Writer) Overloaded() bool { return w.overload.Load() > 0 }

// NeverPause has Overloaded report false but for replies that find no room. The lock is held, or no other goroutine knows w yet.
func (w *Writer) NeverPause() { w.neverPause = true }

// pauseIfFull makes the Writer overloaded if the queue is at least a quarter full.
func (w *Writer) pauseIfFull() {
	b := &w.cfg.Bounds
	if w.cfg.Policy == Wait && !w.neverPause && w.q != nil && (w.q.Bytes() >= b.Bytes/4 || w.q.Len() >= b.Frames/4) {
		w.pause()
	}
}

// pause makes the Writer overloaded until what waits now has been written.
func (w *Writer) pause() {
	if w.state != Idle && !w.Overloaded() && w.phase == accepting {
		w.overload.Store(int32(min(w.q.Bytes(), math.MaxInt32))) //nolint:gosec // no more than that
	}
}

// relieve is called when n bytes of the queue have been written.
func (w *Writer) relieve(n int) {
	if left := w.overload.Load(); left > 0 && n > 0 {
		if int(left) <= n {
			w.resume()
		} else {
			w.overload.Store(left - int32(n)) //nolint:gosec // less than left
		}
	}
}

// resume ends the overload.
func (w *Writer) resume() {
	if w.overload.Load() > 0 {
		w.overload.Store(0)
		w.owner.Resumed()
	}
}
