package session

import "unsafe"

// The outgoing queue: frames that could not be written at once, in order. It is a plain struct without lock, clock or I/O; the
// session guards it. A session has one only while something waits.
//
//	frames[head:]  | lent to the writer | waiting ...                        |
//	                 ^ of the first, some bytes may be gone already (started)
//
// A writer asks for the bytes at the front with lend, writes them without holding the session's lock, and reports with written
// how many went. Meanwhile frames may be added at the back, and frames that are neither lent nor started may be dropped.
//
// Frames are copied into chunks, so that small ones lie side by side in memory and a batch of them is one piece; a chunk is given
// back when its last frame has gone. Shared frames are only referred to. A frame that does not fit into what is left of a chunk
// has memory of its own.
//
// Memory is counted besides the bytes of frames, because a chunk is seldom full and a frame of a few bytes takes a place of more: what
// a session holds stays within its bound whatever the size of its frames.

// frame is one whole frame, or what is left of it.
type frame struct {
	b    []byte
	from *buffer // the chunk that b lies in, or nil
	at   int64   // when it was added, in nanoseconds of any clock
	kept bool    // must not be dropped
	cost int     // memory that it takes besides chunks: what was borrowed or made for it alone, or the length of what it refers to
}

// framePlace is the size of a frame.
const framePlace = int(unsafe.Sizeof(frame{}))

type queue struct {
	frames  []frame
	head    int     // frames before it have gone
	lent    int     // frames after head that a writer holds
	started bool    // of the first frame, some bytes have gone
	bytes   int     // in all frames
	memory  int     // that frames take: chunks, memory of their own, what shared ones refer to
	tail    *buffer // the chunk that is being filled, or nil
}

// bounds are the limits of a queue.
type bounds struct {
	bytes, frames int
	memory, chunk int   // of memory not more than that; the size of chunks
	age           int64 // nanoseconds; 0 is none
}

func (q *queue) len() int { return len(q.frames) - q.head }

// full reports whether a frame of size bytes would exceed the bounds. An empty queue takes anything.
func (q *queue) full(size int, now int64, b *bounds) bool {
	if q.len() == 0 {
		return false
	}
	if q.tooMuch(size, b) {
		return true
	}
	i := q.waiting()
	return b.age > 0 && i < len(q.frames) && now-q.frames[i].at > b.age
}

// tooMuch reports whether another frame of size bytes, and the memory it may take, would be too much.
func (q *queue) tooMuch(size int, b *bounds) bool {
	if q.bytes+size > b.bytes || q.len() >= b.frames {
		return true
	}
	more := size
	switch {
	case size > b.chunk/2:
	case q.tail != nil && cap(q.tail.b)-len(q.tail.b) >= size:
		more = 0
	default:
		more = b.chunk
	}
	places := cap(q.frames)
	if len(q.frames) == places && q.head == 0 {
		places = morePlaces(places)
	}
	return q.memory+more+places*framePlace > b.memory
}

// morePlaces is how many places a queue gets that has n, all of them taken.
func morePlaces(n int) int { return max(2*n, 8) }

// waiting is the index of the first frame that no writer has touched.
func (q *queue) waiting() int {
	if q.lent == 0 && q.started {
		return q.head + 1
	}
	return q.head + q.lent
}

// space returns an empty slice to which a frame of about size bytes can be appended, which addOwned then adds: the rest of the
// current chunk, or a new chunk. A large frame is better off with memory of its own.
func (q *queue) space(size int, pool *bufferPool) []byte {
	if size > pool.size/2 {
		return nil
	}
	if q.tail != nil && cap(q.tail.b)-len(q.tail.b) < size {
		q.leaveTail()
	}
	if q.tail == nil {
		q.tail = pool.get()
		q.memory += cap(q.tail.b)
		q.tail.b = q.tail.b[:0]
	}
	return q.tail.b[len(q.tail.b):]
}

// leaveTail stops filling the current chunk.
func (q *queue) leaveTail() {
	if q.tail.refs == 0 {
		q.leave(q.tail)
	}
	q.tail = nil
}

// leave gives back a chunk in which no frame lies any more.
func (q *queue) leave(c *buffer) {
	q.memory -= cap(c.b)
	c.release()
}

// addOwned adds a frame that was appended to what space returned. Appending may have moved it elsewhere.
func (q *queue) addOwned(b []byte, now int64, kept bool) {
	f := frame{b: b, at: now, kept: kept, cost: cap(b)}
	if t := q.tail; t != nil && len(b) > 0 && len(t.b)+len(b) <= cap(t.b) && &t.b[:len(t.b)+1][len(t.b)] == &b[0] {
		t.b = t.b[:len(t.b)+len(b)]
		t.refs++
		f.from, f.cost = t, 0
	}
	q.add(f)
}

// addCopy adds a copy of b.
func (q *queue) addCopy(b []byte, now int64, kept bool, pool *bufferPool) {
	q.addOwned(append(q.space(len(b), pool), b...), now, kept)
}

// add adds a frame whose bytes stay as they are until it has gone. Empty frames are nothing.
func (q *queue) add(f frame) {
	if len(f.b) == 0 {
		return
	}
	if q.head > 0 && len(q.frames) == cap(q.frames) {
		n := copy(q.frames, q.frames[q.head:])
		clear(q.frames[n:])
		q.frames, q.head = q.frames[:n], 0
	}
	if n := len(q.frames); n == cap(q.frames) {
		q.frames = append(make([]frame, 0, morePlaces(n)), q.frames...)
	}
	q.frames = append(q.frames, f)
	q.bytes += len(f.b)
	if f.from == nil && f.cost == 0 {
		q.frames[len(q.frames)-1].cost = len(f.b)
	}
	q.memory += q.frames[len(q.frames)-1].cost
}

// addTail puts back what is left of a frame of which some bytes have gone, before everything else. Nothing may be lent. What it lies
// in, if that was borrowed, is the queue's now.
func (q *queue) addTail(f frame) {
	if f.from != nil {
		f.from.refs = 1
		q.memory += cap(f.from.b)
	} else if f.cost == 0 {
		f.cost = len(f.b)
	}
	q.memory += f.cost
	if q.head > 0 {
		q.head--
		q.frames[q.head] = f
	} else {
		q.frames = append(q.frames, frame{})
		copy(q.frames[1:], q.frames)
		q.frames[0] = f
	}
	q.bytes += len(f.b)
	q.started = true
}

// addFront puts frames, of which there is at least one, before everything else. If started is set, some bytes of the first have gone.
// Nothing may be lent. They lie in from, which is the queue's now, or side by side in memory of their own.
func (q *queue) addFront(frames []frame, from *buffer, started bool) {
	if from != nil {
		from.refs = len(frames)
		q.memory += cap(from.b)
	}
	for i := range frames {
		f := &frames[i]
		if f.from = from; from == nil {
			f.cost = len(f.b)
		}
		q.bytes += len(f.b)
		q.memory += f.cost
	}
	q.frames = append(frames, q.frames[q.head:]...)
	q.head, q.started = 0, started
}

// lend puts the bytes at the front into b, as many as fit, and reports whether that was all. They must not be changed, and are
// not dropped, until written is called.
func (q *queue) lend(b *batch) (all bool) {
	q.lent = 0
	for i := q.head; i < len(q.frames); i++ {
		n := b.add(q.frames[i].b)
		if n > 0 {
			q.lent++
		}
		if n < len(q.frames[i].b) {
			return false
		}
	}
	return true
}

// written takes the first n bytes off the queue and ends the loan.
func (q *queue) written(n int) {
	q.lent = 0
	q.bytes -= n
	for n > 0 {
		f := &q.frames[q.head]
		if n < len(f.b) {
			f.b = f.b[n:]
			q.started = true
			return
		}
		n -= len(f.b)
		q.drop(q.head)
		q.head++
		q.started = false
	}
	if q.head == len(q.frames) {
		q.frames, q.head = q.frames[:0], 0
	}
}

// drop gives back the memory of a frame.
func (q *queue) drop(i int) {
	q.memory -= q.frames[i].cost
	if c := q.frames[i].from; c != nil {
		if c.refs--; c.refs == 0 {
			if c == q.tail {
				c.b = c.b[:0]
			} else {
				q.leave(c)
			}
		}
	}
	q.frames[i] = frame{}
}

// makeRoom drops frames that are neither lent, started nor kept, oldest first, until a frame of size bytes fits, and returns how
// many it dropped. It may not succeed.
func (q *queue) makeRoom(size int, now int64, b *bounds) (dropped int) {
	for i := q.waiting(); i < len(q.frames); i++ {
		tooMuch := q.tooMuch(size, b)
		tooOld := b.age > 0 && now-q.frames[i].at > b.age
		if !tooMuch && !tooOld {
			break
		}
		if q.frames[i].kept {
			continue
		}
		q.bytes -= len(q.frames[i].b)
		q.drop(i)
		// What stays before the gap moves up by one; that is the lent frames and kept ones, so few.
		copy(q.frames[q.head+1:i+1], q.frames[q.head:i])
		q.frames[q.head] = frame{}
		q.head++
		dropped++
	}
	return dropped
}

// settle moves a little that waits in chunks into memory of its own size, so that a stalled session does not hold whole chunks.
// Nothing may be lent.
func (q *queue) settle(chunk int) {
	owned := 0
	for _, f := range q.frames[q.head:] {
		if f.from != nil {
			owned += len(f.b)
		}
	}
	if owned > chunk/4 {
		return
	}
	own := make([]byte, 0, owned)
	for i := q.head; i < len(q.frames); i++ {
		f := &q.frames[i]
		if f.from == nil {
			continue
		}
		moved := *f
		start := len(own)
		own = append(own, f.b...)
		moved.b, moved.from, moved.cost = own[start:], nil, len(f.b)
		q.drop(i)
		q.frames[i] = moved
		q.memory += moved.cost
	}
	if q.tail != nil {
		q.leaveTail()
	}
}

// reset drops everything, keeps a small amount of memory for the next use, and returns how many bytes were dropped.
func (q *queue) reset() (dropped int) {
	for i := q.head; i < len(q.frames); i++ {
		q.drop(i)
	}
	if q.tail != nil {
		q.leaveTail()
	}
	dropped = q.bytes
	frames := q.frames[:0]
	if cap(frames) > 256 {
		frames = nil
	}
	*q = queue{frames: frames}
	return dropped
}
