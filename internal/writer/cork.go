package writer

import "github.com/sluice-push/sluice/internal/buffer"

// While the messages of one read are handled, frames are corked: they are collected in one piece of memory, and leave in one write when the last
// message has been handled, or when there are many. The name is that of TCP_CORK. Frames of other goroutines are corked too, because a call does
// not identify its goroutine. If a handler takes long, the cork is pulled: CorkTick finds frames in it twice, a millisecond apart.
//
// A goroutine that writes something else writes the cork first, so the order of bytes is always the order of calls. No more is corked than half
// of what may wait, so that the answers to the message that is being handled find room even if the cork does not.
//
// The cork lies in the scratch memory of a batch, which the caller of Cork lends or which comes from the pool. While the lock is not held only the
// goroutine in the Writing state touches it.

// maxCork bounds Config.CorkBytes.
const maxCork = 32 << 10

// CorkBytes returns how many bytes are corked at most where so many bytes may wait.
func CorkBytes(queueBytes int) int { return min(maxCork, queueBytes/2) }

// Cork begins to cork frames, because the messages of one read are about to be handled. They are collected in batch, or if that is nil in a batch
// of the pool. Cork reports whether batch is in use until Uncork. The lock is held.
func (w *Writer) Cork(batch *buffer.Batch) (inUse bool) {
	w.corked, w.corkSeen, w.handling = true, false, true
	if w.cork == nil {
		w.cork = batch
	}
	return batch != nil && w.cork == batch
}

// corkFor returns where to collect a frame of about size bytes, or nil if frames are not corked. It may write the cork.
func (w *Writer) corkFor(size int) *buffer.Batch {
	if !w.corked || w.state != Idle {
		return nil
	}
	if c := w.cork; c != nil {
		if len(c.Scratch) == 0 || len(c.Scratch)+size <= w.cfg.CorkBytes && len(c.CorkedEnds) < w.cfg.Bounds.Frames/2 {
			return c
		}
		w.flushCork()
		if !w.corked || w.state != Idle {
			return nil
		}
	}
	if w.cork == nil {
		if !w.holdCork() {
			return nil
		}
		w.cork = w.cfg.Pools.Batch()
	}
	return w.cork
}

// holdCork makes sure that the cork is pulled if the handler takes long. If the owner cannot do that, frames are no longer corked.
func (w *Writer) holdCork() bool {
	if !w.corkHeld {
		w.corkHeld = w.owner.HoldCork()
		w.corked = w.corkHeld
	}
	return w.corked
}

// endCork ends corking.
func (w *Writer) endCork() {
	w.corked = false
	if w.corkHeld {
		w.corkHeld = false
		w.owner.ReleaseCork()
	}
}

// Flush writes the cork if no goroutine is writing. The lock is held.
func (w *Writer) Flush() {
	if w.state == Idle && w.phase == accepting {
		w.flushCork()
	}
}

// flushCork writes the cork. The Writer is idle.
func (w *Writer) flushCork() {
	c := w.cork
	if c == nil || len(c.Scratch) == 0 {
		return
	}
	switch {
	case w.phase == aborted:
		w.owner.Lost(len(c.Scratch))
		c.ClearCorked()
		return
	case !w.owner.Conn().Direct():
		w.queueCork(0)
		w.waitForRoom()
		w.pauseIfFull()
		return
	}
	sent, room, alive := 0, true, true
	for room && alive && sent < len(c.Scratch) {
		c.Add(c.Scratch[sent:])
		var n int
		n, room, alive = w.tryWrite(c)
		c.Clear()
		sent += n
	}
	w.corkFlushed(c, sent, room, alive)
}

// corkFlushed accounts for the first sent bytes of the cork, queues the rest, and leaves the Writing state.
func (w *Writer) corkFlushed(c *buffer.Batch, sent int, room, alive bool) {
	if alive {
		w.queueCork(sent)
	} else {
		w.owner.Lost(len(c.Scratch) - sent)
		c.ClearCorked()
	}
	if !w.corked { // it was pulled meanwhile
		w.cork = nil
		w.cfg.Pools.PutBatch(c)
	}
	w.finishWrite(room)
	w.pauseIfFull()
}

// queueCork moves the frames of the cork to the front of the queue, without the first sent bytes, which have been written.
func (w *Writer) queueCork(sent int) {
	c := w.cork
	if c == nil {
		return
	}
	if sent < len(c.Scratch) {
		own, from := w.cfg.Pools.CopyOf(c.Scratch[sent:])
		start, started := 0, false
		var frames []buffer.Frame
		for _, e := range c.CorkedEnds {
			end := e >> 1
			isKept, last := e&1 == 1, len(frames)-1
			switch {
			case end <= sent:
			case isKept && last >= 0 && frames[last].Kept: // many small ones take one place
				frames[last].B = frames[last].B[:len(frames[last].B)+end-start]
			default:
				started = started || start < sent
				first := max(start, sent)
				frames = append(frames, buffer.Frame{B: own[first-sent : end-sent], At: w.now(), Kept: isKept})
			}
			start = end
		}
		w.queue().AddFront(frames, from, started)
	}
	c.ClearCorked()
}

// Uncork ends corking, and writes the cork. If the caller knows the socket and that it stays open, because it is the goroutine that reads, fd is its
// descriptor; otherwise -1. It returns the batch in which frames were collected if no goroutine writes from it any more, for the caller to give back
// to the pool or to lend again. The lock is held.
func (w *Writer) Uncork(fd int32) *buffer.Batch {
	if w.cork != nil && w.state == Idle {
		w.cork.ByReader = fd >= 0
		w.flushSingle(fd)
	}
	return w.pullCork()
}

// PullCork is Uncork for a goroutine other than the one that handles messages. The lock is held.
func (w *Writer) PullCork() {
	if c := w.pullCork(); c != nil {
		w.cfg.Pools.PutBatch(c)
	}
}

func (w *Writer) pullCork() *buffer.Batch {
	w.endCork()
	if w.state != Idle && w.cork != nil && len(w.cork.Scratch) > 0 {
		return nil
	}
	c := w.cork
	if c != nil && len(c.Scratch) > 0 {
		w.corked = true // so that the batch stays
		w.flushCork()
		w.corked = false
		if w.cork != c { // it was pulled meanwhile, and given back
			return nil
		}
	}
	w.cork = nil
	return c
}

// IsCorked reports whether frames are corked. The lock is held.
func (w *Writer) IsCorked() bool { return w.corked }

// CorkTick is called about once a millisecond between HoldCork and ReleaseCork. At the second call that finds frames it pulls the cork.
func (w *Writer) CorkTick() {
	w.Lock()
	defer w.Unlock()
	if !w.corkHeld || w.state != Idle || w.cork == nil || len(w.cork.Scratch) == 0 {
		return
	}
	if !w.corkSeen {
		w.corkSeen = true
		return
	}
	w.PullCork()
}

// Handling reports whether the messages of one read are being handled, corked or not. The lock is held.
func (w *Writer) Handling() bool { return w.handling }

// Handled says that the messages of one read have been handled. The lock is held.
func (w *Writer) Handled() { w.handling = false }
