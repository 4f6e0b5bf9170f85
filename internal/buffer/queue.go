package buffer

import "unsafe"

// Frame is one whole frame in a queue, or the unwritten rest of one.
type Frame struct {
	B    []byte
	From *Buffer   // the chunk that contains B, or nil
	At   int64     // when the frame was added, in nanoseconds of any clock
	Kept bool      // the frame must not be dropped
	Big  *BigFrame // a big frame instead of B; counts as no bytes and no memory
	Cost int       // bytes of memory besides chunks: of B if it is borrowed or allocated for this frame, or the length of B if it is shared
}

// framePlace is the size in bytes of a Frame in the queue.
const framePlace = int(unsafe.Sizeof(Frame{}))

// Queue holds, in order, the frames of a session that could not be written at once. It has neither lock nor clock, and does no I/O. The
// session's mutex guards it. A session has a queue only while frames wait.
//
//	frames[head:]  | in flight          | waiting ...                        |
//	                 ^ some bytes of the first frame may be written (started)
//
// A writer gets the bytes at the front with FillBatch, writes them without holding the session's lock, and reports the number of written bytes with
// Written. Meanwhile frames may be added at the back, and frames that are neither in flight nor started may be dropped.
//
// Frames are copied into chunks, so small frames are neighbours in memory, and a batch of them is one slice. A chunk is given back when its last
// frame is removed. Shared frames are not copied. A frame that does not fit into the rest of a chunk has memory of its own.
//
// The queue counts memory as well as the bytes of its frames. A chunk is seldom full, and a frame of a few bytes needs a Frame of many bytes. So
// the memory of a session stays within its bound whatever the size of its frames.
type Queue struct {
	frames   []Frame
	head     int     // frames before this index are removed
	inFlight int     // frames from head on that a writer holds
	started  bool    // some bytes of the first frame are written
	bytes    int     // bytes in all frames
	memory   int     // bytes of memory: chunks, memory of frames of their own, and the length of shared frames
	bigs     int     // number of big frames
	tail     *Buffer // the chunk that new frames are copied into, or nil
}

// Bounds are the limits of a queue.
type Bounds struct {
	Bytes, Frames int
	Memory, Chunk int   // the most bytes of memory; the size in bytes of a chunk
	Age           int64 // the greatest age of a frame in nanoseconds; 0 is no limit
}

// Len returns the number of frames. A partly written frame counts.
func (q *Queue) Len() int { return len(q.frames) - q.head }

// Bytes returns the number of unwritten bytes in all frames.
func (q *Queue) Bytes() int { return q.bytes }

// Full reports whether another frame of size bytes would exceed the bounds, or a frame is older than the bounds allow. An empty queue takes a
// frame of any size.
func (q *Queue) Full(size int, now int64, b *Bounds) bool {
	if q.Len() == 0 {
		return false
	}
	if q.tooMuch(size, b) {
		return true
	}
	i := q.untouched()
	for i < len(q.frames) && q.frames[i].Big != nil { // the caller that sends a big frame waits for it anyhow, so its age does not count
		i++
	}
	return b.Age > 0 && i < len(q.frames) && now-q.frames[i].At > b.Age
}

// tooMuch reports whether another frame of size bytes, with the memory that it may take, would exceed the bounds.
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

// morePlaces returns the new capacity of the frames of a queue whose n places are all taken.
func morePlaces(n int) int { return max(2*n, 8) }

// untouched returns the index of the first frame that is neither in flight nor started.
func (q *Queue) untouched() int {
	if q.inFlight == 0 && q.started {
		return q.head + 1
	}
	return q.head + q.inFlight
}

// Space returns an empty slice that the caller appends a frame of about size bytes to, and then passes to AddOwned. The slice is the rest of the
// current chunk, or a new chunk. If the frame takes more than half a chunk, Space returns nil, and append allocates.
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

// leaveTail ends the filling of the current chunk.
func (q *Queue) leaveTail() {
	if q.tail.refs == 0 {
		q.leave(q.tail)
	}
	q.tail = nil
}

// leave gives back a chunk that contains no frame any more.
func (q *Queue) leave(c *Buffer) {
	q.memory -= cap(c.B)
	c.Release()
}

// AddOwned adds a frame that the caller appended to the result of Space. Appending may have moved the frame to other memory.
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

// Add adds a frame whose bytes do not change until the frame is removed. Empty frames are ignored.
func (q *Queue) Add(f Frame) {
	if len(f.B) == 0 && f.Big == nil {
		return
	}
	if f.Big != nil {
		q.bigs++
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

// AddFirst puts the rest of a partly written frame before all other frames. Nothing may be in flight. If f.From is not nil, the queue owns that buffer
// from now on.
func (q *Queue) AddFirst(f Frame) {
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

// AddFront puts frames, at least one, before all others. If started is set, the first is partly written. Nothing may be in flight. If from is not
// nil, it contains the frames, and the queue owns it from now on. If from is nil, the frames have memory of their own.
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

// FrontBig returns the first frame if it is a big one, or nil. Then FillBatch adds nothing.
func (q *Queue) FrontBig() *BigFrame {
	if q.bigs == 0 || q.Len() == 0 {
		return nil
	}
	return q.frames[q.head].Big
}

// BigFrames returns the big frames.
func (q *Queue) BigFrames() (all []*BigFrame) {
	for _, f := range q.frames[q.head:] {
		if f.Big != nil {
			all = append(all, f.Big)
		}
	}
	return all
}

// HasBig reports whether the queue contains a big frame.
func (q *Queue) HasBig() bool { return q.bigs > 0 }

// RemoveBig removes the first frame, which is a big one.
func (q *Queue) RemoveBig() {
	q.drop(q.head)
	q.head++
	if q.head == len(q.frames) {
		q.frames, q.head = q.frames[:0], 0
	}
}

// FillBatch adds the frames at the front to b, as many bytes as fit and up to the first big frame, and reports whether these were all. Until Written
// is called, the bytes in flight must not change, and the queue does not drop them.
func (q *Queue) FillBatch(b *Batch) (all bool) {
	q.inFlight = 0
	for i := q.head; i < len(q.frames); i++ {
		if q.frames[i].Big != nil {
			return false
		}
		n := b.Add(q.frames[i].B)
		if n > 0 {
			q.inFlight++
		}
		if n < len(q.frames[i].B) {
			return false
		}
	}
	return true
}

// Written removes the first n bytes from the queue, and ends the flight of the others.
func (q *Queue) Written(n int) {
	q.inFlight = 0
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

// drop gives back the memory of the frame at index i, and clears the frame.
func (q *Queue) drop(i int) {
	q.memory -= q.frames[i].Cost
	if q.frames[i].Big != nil {
		q.bigs--
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

// MakeRoom drops the oldest frames that are neither in flight, started nor kept, until a frame of size bytes fits, and returns the number of dropped
// frames. Afterwards the frame may still not fit.
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
		// The frames that stay before the gap move up by one. These are in flight, started or kept frames, so they are few.
		copy(q.frames[q.head+1:i+1], q.frames[q.head:i])
		q.frames[q.head] = Frame{}
		q.head++
		dropped++
	}
	return dropped
}

// Compact moves frames from chunks to memory of exactly their size, if they take a quarter of a chunk at most. So a stalled session does not hold
// whole chunks. Nothing may be in flight.
func (q *Queue) Compact(chunk int) {
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

// Reset drops all frames, keeps a small amount of memory for the next use, and returns the number of dropped bytes.
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
