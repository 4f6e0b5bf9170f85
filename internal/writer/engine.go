package writer

import "github.com/sluice-push/sluice/internal/buffer"

// What an engine does when the state is WaitWritable. An event loop calls WriteQueue when the connection is writable. A goroutine that may
// block calls Next and Done in turns.

// maxFlushes is how many writes a connection gets when it is writable, before other connections get theirs.
const maxFlushes = 4

// WriteQueue writes what waits, because the connection is writable, or becomes idle if nothing is left or the Writer was aborted. It reports
// whether the socket took something, and whether it is stuck: it took nothing although it should have had room. The lock is held.
func (w *Writer) WriteQueue() (progress, stuck bool) {
	b := w.cfg.Pools.Batch()
	defer w.cfg.Pools.PutBatch(b)
	conn := w.owner.Conn()
	for round := range maxFlushes {
		if l := w.bigAtFront(); l != nil && w.phase != aborted {
			left := l.Remaining()
			room := w.tryWriteBig(l)
			w.state = WaitWritable
			progress = progress || l.Remaining() < left
			if !room && !l.IsFinished() {
				return progress, round == 0 && !progress
			}
			continue
		}
		b.Clear()
		if w.phase == aborted || w.fill(b) == 0 && !conn.HasPending() {
			w.becomeIdle()
			return progress, false
		}
		n, room, alive := w.tryWrite(b)
		w.state = WaitWritable
		w.consume(n)
		progress = progress || b.Sent > 0
		if !alive || !room {
			return progress, alive && round == 0 && b.Sent == 0
		}
	}
	return progress, false
}

// Quit becomes idle after an abort, because the engine writes no more. The state is WaitWritable. The lock is held.
func (w *Writer) Quit() { w.becomeIdle() }

// Next puts what waits into b, or returns the big frame that is to be written, for an engine that then writes without the lock and may block. If
// nothing is left to write, or the Writer was aborted, it becomes idle and ok is false. If force is set ok is also true when nothing
// waits: the engine then waits for room.
func (w *Writer) Next(b *buffer.Batch, force bool) (l *buffer.BigFrame, ok bool) {
	w.Lock()
	defer w.Unlock()
	b.Clear()
	if l = w.bigAtFront(); w.phase != aborted && (l != nil || w.fill(b) > 0 || force) {
		if l != nil {
			l.InFlight = true
		}
		return l, true
	}
	w.becomeIdle()
	return nil, false
}

// Done takes n written bytes off the queue after Next, or advances after the big frame l. The lock is held.
func (w *Writer) Done(l *buffer.BigFrame, n int) {
	if l == nil {
		w.consume(n)
	} else {
		w.endBig(l)
	}
}

// FlushPending makes the connection send its pending bytes, because the goroutine that reads has made it answer its peer by itself, as TLS does. If
// another goroutine writes, that one sends it. The lock is held.
func (w *Writer) FlushPending() {
	if w.state != Idle || w.phase == aborted {
		return
	}
	if w.cork != nil && len(w.cork.Scratch) > 0 {
		w.flushCork() // which sends that as well
		return
	}
	b := w.cfg.Pools.Batch()
	_, room, _ := w.tryWrite(b)
	w.cfg.Pools.PutBatch(b)
	w.finishWrite(room)
}
