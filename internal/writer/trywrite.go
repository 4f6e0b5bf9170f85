package writer

// maxTryQueued is how many bytes may wait before TryWrite takes nothing more, on connections where it has to queue.
const maxTryQueued = 64 << 10

// TryWrite offers frames in order, without blocking and without queueing whole frames, and returns how many were taken. A frame is taken once
// the connection has taken a byte of it. The rest of a frame is kept, not copied, and is written before everything else, so frames
// must never change. While something waits to be written none is taken. If fewer than all were taken, Writable of the owner is called
// once there is room, once for any number of refusals. If the connection is not Direct, frames are queued whole while less than 64 KiB
// wait, and count as taken.
func (w *Writer) TryWrite(frames [][]byte) (taken int, err error) {
	w.Lock()
	defer w.Unlock()
	if len(frames) == 1 && len(frames[0]) > 0 && w.canWriteSingle() {
		return w.tryWriteSingle(frames[0])
	}
	if w.state == Idle {
		w.flushCork()
	}
	switch {
	case w.phase != accepting:
		return 0, w.owner.Err()
	case !w.owner.Conn().Direct():
		return w.tryQueue(frames), nil
	case w.state != Idle:
		w.refuse(len(frames))
		return 0, nil
	}
	taken, room := w.tryFrames(frames)
	w.refuse(len(frames) - taken)
	w.finishWrite(room)
	if taken < len(frames) && w.phase != accepting {
		err = w.owner.Err()
	}
	return taken, err
}

// tryFrames writes frames on an idle connection, behind what has been queued meanwhile.
func (w *Writer) tryFrames(frames [][]byte) (taken int, room bool) {
	room = true
	b := w.cfg.Pools.Batch()
	defer w.cfg.Pools.PutBatch(b)
	for room && w.phase == accepting && taken < len(frames) && w.bigAtFront() == nil {
		waiting := w.fill(b)
		if w.q == nil || waiting == w.q.Bytes() && !w.q.HasBig() {
			for _, f := range frames[taken:] {
				if b.Add(f) < len(f) {
					break
				}
			}
		}
		if b.Size == 0 { // only empty frames are left
			return len(frames), room
		}
		var n int
		n, room, _ = w.tryWrite(b)
		b.Clear()
		taken += w.countTaken(frames[taken:], n, waiting) // also when the session has ended meanwhile
	}
	return taken, room
}

// countTaken accounts for n written bytes, the first of them from the queue, which had offered waiting bytes. It returns how many frames have
// been taken, and keeps the rest of the last one.
func (w *Writer) countTaken(frames [][]byte, n, waiting int) (taken int) {
	if waiting > 0 {
		w.consume(min(n, waiting))
		n -= min(n, waiting)
	}
	for n > 0 {
		f := frames[taken]
		taken++
		if n < len(f) {
			w.queueRest(f[n:], true)
			break
		}
		n -= len(f)
	}
	return taken
}

// tryQueue is TryWrite on a connection that cannot be written without blocking.
func (w *Writer) tryQueue(frames [][]byte) (taken int) {
	for _, f := range frames {
		if w.q != nil && w.q.Bytes() >= maxTryQueued {
			break
		}
		w.enqueue(f, true, true)
		taken++
	}
	w.refuse(len(frames) - taken)
	if w.state == Idle && w.q != nil {
		w.waitForRoom()
	}
	return taken
}

// refuse notes that n frames were not taken.
func (w *Writer) refuse(n int) {
	if n > 0 {
		w.wantWritable = true
	}
}

// RequestWritable makes the Writer call Writable although TryWrite has not been called. The lock is held.
func (w *Writer) RequestWritable() { w.wantWritable = true }

// IsWritableDue reports whether Writable is due and TryWrite can be called. The lock is held.
func (w *Writer) IsWritableDue() bool {
	return w.wantWritable && w.state == Idle && w.phase == accepting
}

// TakeWritable returns IsWritableDue. If that is true, Writable is no longer due afterwards. The lock is held.
func (w *Writer) TakeWritable() bool {
	due := w.IsWritableDue()
	w.wantWritable = w.wantWritable && !due
	return due
}
