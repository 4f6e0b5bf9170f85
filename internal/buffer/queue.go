package buffer

import "unsafe"

// Frame is one whole frame, or what is left of it.
type Frame struct {
	B     []byte
	From  *Buffer // the chunk that B lies in, or nil
	At    int64   // when it was added, in nanoseconds of any clock
	Kept  bool    // must not be dropped
	Large *Large  // instead of B: it goes from where it lies, and counts as no bytes and no memory
	Cost  int     // memory that it takes besides chunks: what was borrowed or made for it alone, or the length of what it refers to
}

// framePlace is the size of a frame.
const framePlace = int(unsafe.Sizeof(Frame{}))

// Queue holds the frames of a session that could not be written at once, in order. It has neither lock nor clock and does no I/O;
// the session guards it, and has one only while something waits.
//
//	frames[head:]  | lent to the writer | waiting ...                        |
//	                 ^ of the first, some bytes may be gone already (started)
//
// A writer asks for the bytes at the front with Lend, writes them without holding the session's lock, and reports with Written
// how many went. Meanwhile frames may be added at the back, and frames that are neither lent nor started may be dropped.
//
// Frames are copied into chunks, so that small ones lie side by side in memory and a batch of them is one piece; a chunk is given
// back when its last frame has gone. Shared frames are only referred to. A frame that does not fit into what is left of a chunk
// has memory of its own.
//
// Memory is counted besides the bytes of frames, because a chunk is seldom full and a frame of a few bytes takes a place of more: what
// a session holds stays within its bound whatever the size of its frames.
type Queue struct {
	frames  []Frame
	head    int     // frames before it have gone
	lent    int     // frames after head that a writer holds
	started bool    // of the first frame, some bytes have gone
	bytes   int     // in all frames
	memory  int     // that frames take: chunks, memory of their own, what shared ones refer to
	larges  int     // how many frames are large
	tail    *Buffer // the chunk that is being filled, or nil
}

// Bounds are the limits of a queue.
type Bounds struct {
	Bytes, Frames int
	Memory, Chunk int   // of memory not more than that; the size of chunks
	Age           int64 // nanoseconds; 0 is none
}

// Len returns how many frames there are, with one of which only a part is left.
func (q *Queue) Len() int { return len(q.frames) - q.head }

// Bytes returns how many bytes are in all of them.
func (q *Queue) Bytes() int { return q.bytes }

// Full reports whether a frame of size bytes would exceed the bounds. An empty queue takes anything.
func (q *Queue) Full(size int, now int64, b *Bounds) bool {
	if q.Len() == 0 {
		return false
	}
	if q.tooMuch(size, b) {
		return true
	}
	i := q.untouched()
	for i < len(q.frames) && q.frames[i].Large != nil { // whoever offers it waits for it anyhow
		i++
	}
	return b.Age > 0 && i < len(q.frames) && now-q.frames[i].At > b.Age
}

// tooMuch reports whether another frame of size bytes, and the memory it may take, would be too much.
func (q *Queue) tooMuch(size int, b *Bounds) bool {
	if q.bytes+size > b.Bytes || q.Len() >= b.Frames {
		return true
	}
	more := size
	switch {
	case size > b.Chunk/2:
	case q.tail != nil && cap(q.tail.B)-len(q.tail.B) >= size:
		more = 0
	default:
		more = b.Chunk
	}
	places := cap(q.frames)
	if len(q.frames) == places && q.head == 0 {
		places = morePlaces(places)
	}
	return q.memory+more+places*framePlace > b.Memory
}

// morePlaces is how many places a queue gets that has n, all of them taken.
func morePlaces(n int) int { return max(2*n, 8) }

// untouched is the index of the first frame that no writer has touched.
func (q *Queue) untouched() int {
	if q.lent == 0 && q.started {
		return q.head + 1
	}
	return q.head + q.lent
}

// Space returns an empty slice to which a frame of about size bytes can be appended, which AddOwned then adds: the rest of the
// current chunk, or a new chunk. A large frame is better off with memory of its own.
func (q *Queue) Space(size int, pool *Pool) []byte {
	if size > pool.Size/2 {
		return nil
	}
	if q.tail != nil && cap(q.tail.B)-len(q.tail.B) < size {
		q.leaveTail()
	}
	if q.tail == nil {
		q.tail = pool.Get()
		q.memory += cap(q.tail.B)
		q.tail.B = q.tail.B[:0]
	}
	return q.tail.B[len(q.tail.B):]
}

// leaveTail stops filling the current chunk.
func (q *Queue) leaveTail() {
	if q.tail.refs == 0 {
		q.leave(q.tail)
	}
	q.tail = nil
}

// leave gives back a chunk in which no frame lies any more.
func (q *Queue) leave(c *Buffer) {
	q.memory -= cap(c.B)
	c.Release()
}

// AddOwned adds a frame that was appended to what Space returned. Appending may have moved it elsewhere.
func (q *Queue) AddOwned(b []byte, now int64, kept bool) {
	f := Frame{B: b, At: now, Kept: kept, Cost: cap(b)}
	if t := q.tail; t != nil && len(b) > 0 && len(t.B)+len(b) <= cap(t.B) && &t.B[:len(t.B)+1][len(t.B)] == &b[0] {
		t.B = t.B[:len(t.B)+len(b)]
		t.refs++
		f.From, f.Cost = t, 0
	}
	q.Add(f)
}

// AddCopy adds a copy of b.
func (q *Queue) AddCopy(b []byte, now int64, kept bool, pool *Pool) {
	q.AddOwned(append(q.Space(len(b), pool), b...), now, kept)
}

// Add adds a frame whose bytes stay as they are until it has gone. Empty frames are nothing.
func (q *Queue) Add(f Frame) {
	if len(f.B) == 0 && f.Large == nil {
		return
	}
	if f.Large != nil {
		q.larges++
	}
	if q.head > 0 && len(q.frames) == cap(q.frames) {
		n := copy(q.frames, q.frames[q.head:])
		clear(q.frames[n:])
		q.frames, q.head = q.frames[:n], 0
	}
	if n := len(q.frames); n == cap(q.frames) {
		q.frames = append(make([]Frame, 0, morePlaces(n)), q.frames...)
	}
	q.frames = append(q.frames, f)
	q.bytes += len(f.B)
	if f.From == nil && f.Cost == 0 {
		q.frames[len(q.frames)-1].Cost = len(f.B)
	}
	q.memory += q.frames[len(q.frames)-1].Cost
}

// AddTail puts back what is left of a frame of which some bytes have gone, before everything else. Nothing may be lent. What it lies
// in, if that was borrowed, is the queue's now.
func (q *Queue) AddTail(f Frame) {
	if f.From != nil {
		f.From.refs = 1
		q.memory += cap(f.From.B)
	} else if f.Cost == 0 {
		f.Cost = len(f.B)
	}
	q.memory += f.Cost
	if q.head > 0 {
		q.head--
		q.frames[q.head] = f
	} else {
		q.frames = append(q.frames, Frame{})
		copy(q.frames[1:], q.frames)
		q.frames[0] = f
	}
	q.bytes += len(f.B)
	q.started = true
}

// AddFront puts frames, of which there is at least one, before everything else. If started is set, some bytes of the first have gone.
// Nothing may be lent. They lie in from, which is the queue's now, or side by side in memory of their own.
func (q *Queue) AddFront(frames []Frame, from *Buffer, started bool) {
	if from != nil {
		from.refs = len(frames)
		q.memory += cap(from.B)
	}
	for i := range frames {
		f := &frames[i]
		if f.From = from; from == nil {
			f.Cost = len(f.B)
		}
		q.bytes += len(f.B)
		q.memory += f.Cost
	}
	q.frames = append(frames, q.frames[q.head:]...)
	q.head, q.started = 0, started
}

// Front returns the first frame if it is large, or nil. Lend lends nothing then.
func (q *Queue) Front() *Large {
	if q.larges == 0 || q.Len() == 0 {
		return nil
	}
	return q.frames[q.head].Large
}

// Larges returns the large frames.
func (q *Queue) Larges() (all []*Large) {
	for _, f := range q.frames[q.head:] {
		if f.Large != nil {
			all = append(all, f.Large)
		}
	}
	return all
}

// HasLarge reports whether there is a large frame.
func (q *Queue) HasLarge() bool { return q.larges > 0 }

// Pass takes off the first frame, which is large.
func (q *Queue) Pass() {
	q.drop(q.head)
	q.head++
	if q.head == len(q.frames) {
		q.frames, q.head = q.frames[:0], 0
	}
}

// Lend puts the bytes at the front, up to a large frame, into b, as many as fit, and reports whether that was all. They must not be changed, and are
// not dropped, until Written is called.
func (q *Queue) Lend(b *Batch) (all bool) {
	q.lent = 0
	for i := q.head; i < len(q.frames); i++ {
		if q.frames[i].Large != nil {
			return false
		}
		n := b.Add(q.frames[i].B)
		if n > 0 {
			q.lent++
		}
		if n < len(q.frames[i].B) {
			return false
		}
	}
	return true
}

// Written takes the first n bytes off the queue and ends the loan.
func (q *Queue) Written(n int) {
	q.lent = 0
	q.bytes -= n
	for n > 0 {
		f := &q.frames[q.head]
		if n < len(f.B) {
			f.B = f.B[n:]
			q.started = true
			return
		}
		n -= len(f.B)
		q.drop(q.head)
		q.head++
		q.started = false
	}
	if q.head == len(q.frames) {
		q.frames, q.head = q.frames[:0], 0
	}
}

// drop gives back the memory of a frame.
func (q *Queue) drop(i int) {
	q.memory -= q.frames[i].Cost
	if q.frames[i].Large != nil {
		q.larges--
	}
	if c := q.frames[i].From; c != nil {
		if c.refs--; c.refs == 0 {
			if c == q.tail {
				c.B = c.B[:0]
			} else {
				q.leave(c)
			}
		}
	}
	q.frames[i] = Frame{}
}

// MakeRoom drops frames that are neither lent, started nor kept, oldest first, until a frame of size bytes fits, and returns how
// many it dropped. It may not succeed.
func (q *Queue) MakeRoom(size int, now int64, b *Bounds) (dropped int) {
	for i := q.untouched(); i < len(q.frames); i++ {
		tooMuch := q.tooMuch(size, b)
		tooOld := b.Age > 0 && now-q.frames[i].At > b.Age
		if !tooMuch && !tooOld {
			break
		}
		if q.frames[i].Kept {
			continue
		}
		q.bytes -= len(q.frames[i].B)
		q.drop(i)
		// What stays before the gap moves up by one; that is the lent frames and kept ones, so few.
		copy(q.frames[q.head+1:i+1], q.frames[q.head:i])
		q.frames[q.head] = Frame{}
		q.head++
		dropped++
	}
	return dropped
}

// Settle moves a little that waits in chunks into memory of its own size, so that a stalled session does not hold whole chunks.
// Nothing may be lent.
func (q *Queue) Settle(chunk int) {
	owned := 0
	for _, f := range q.frames[q.head:] {
		if f.From != nil {
			owned += len(f.B)
		}
	}
	if owned > chunk/4 {
		return
	}
	own := make([]byte, 0, owned)
	for i := q.head; i < len(q.frames); i++ {
		f := &q.frames[i]
		if f.From == nil {
			continue
		}
		moved := *f
		start := len(own)
		own = append(own, f.B...)
		moved.B, moved.From, moved.Cost = own[start:], nil, len(f.B)
		q.drop(i)
		q.frames[i] = moved
		q.memory += moved.Cost
	}
	if q.tail != nil {
		q.leaveTail()
	}
}

// Reset drops everything, keeps a small amount of memory for the next use, and returns how many bytes were dropped.
func (q *Queue) Reset() (dropped int) {
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
	*q = Queue{frames: frames}
	return dropped
}
