package workerpool

import "sync/atomic"

// The sizes of rings, in places of 8 bytes. A ring never shrinks below minRing; an empty ring keeps at most keptRing.
const (
	minRing  = 16
	keptRing = 2048 // room for DefaultQueue tasks, and for tasks that were accepted for free workers
)

// ring is a first-in first-out queue of tasks in an array whose size is a power of two. It grows as needed; its owner enforces the bound. It
// gives memory back: all beyond keptRing when it is empty, and half if for long at most a quarter of it has been used. It does not shrink at
// once, because a load that goes up and down would then copy the array each time. The zero value is empty. The owner's lock guards it.
type ring struct {
	places []func()
	head   int // the place of the oldest task
	n      int
	quiet  int // how many tasks were taken since more than a quarter was used
}

func (r *ring) push(task func()) {
	if r.n == len(r.places) {
		r.resize(max(minRing, 2*r.n))
	}
	r.places[(r.head+r.n)&(len(r.places)-1)] = task
	r.n++
	if r.n > len(r.places)/4 {
		r.quiet = 0
	}
}

// pop removes and returns the oldest task. The ring must not be empty.
func (r *ring) pop() func() {
	task := r.places[r.head]
	r.places[r.head] = nil
	r.head = (r.head + 1) & (len(r.places) - 1)
	r.n--
	r.quiet++
	switch size := len(r.places); {
	case size > keptRing && r.n == 0:
		r.resize(keptRing)
	case r.quiet > 4*size && size > minRing && r.n <= size/4:
		r.resize(size / 2)
	}
	return task
}

// clear removes all tasks and returns their number.
func (r *ring) clear() int {
	n := r.n
	*r = ring{}
	return n
}

func (r *ring) resize(size int) {
	places := make([]func(), size)
	if r.n > 0 {
		first := copy(places, r.places[r.head:min(r.head+r.n, len(r.places))])
		copy(places[first:], r.places[:r.n-first])
	}
	r.places, r.head, r.quiet = places, 0, 0
}

// batchSize is the capacity of a local queue: the most tasks that a worker takes at once.
const batchSize = 32

// localQueue holds the tasks that one worker has taken and not begun. It is filled, and other workers steal from it, under the lock of the queue
// that the tasks came from. The worker that owns it takes the next task without that lock: each task goes to the goroutine that advances next
// over it, so to exactly one. A place is written again only in fill. By then all thieves have finished, because they held the lock, and so has
// the owner's last take.
type localQueue struct {
	places *[batchSize]func() // made by the first fill
	next   atomic.Int32       // the place of the next task; may be beyond end
	end    atomic.Int32       // written under the lock
}

// take removes and returns the next task, or nil. Callers other than the owner hold the lock.
func (h *localQueue) take() func() {
	end := h.end.Load()
	if h.next.Load() >= end {
		return nil
	}
	i := h.next.Add(1) - 1
	if i >= end {
		return nil
	}
	task := h.places[i]
	h.places[i] = nil
	return task
}

// left returns the number of tasks. Without the lock it is only a hint while the queue is being filled or stolen from.
func (h *localQueue) left() int { return max(0, int(h.end.Load()-h.next.Load())) }

// fill moves n tasks from the ring into the local queue, which must be empty. The lock is held.
func (h *localQueue) fill(r *ring, n int) {
	if h.places == nil {
		h.places = new([batchSize]func())
	}
	for i := range n {
		h.places[i] = r.pop()
	}
	h.end.Store(int32(n))
	h.next.Store(0)
}

// steal moves up to n tasks, the oldest first, to another local queue, which must be empty. If to is nil, steal drops them. It returns their
// number. The lock is held.
func (h *localQueue) steal(n int, to *localQueue) int {
	n = min(n, h.left())
	if n == 0 {
		return 0
	}
	first := h.next.Add(int32(n)) - int32(n)
	n = max(0, min(n, int(h.end.Load()-first)))
	if n > 0 && to != nil && to.places == nil {
		to.places = new([batchSize]func())
	}
	for i := range int32(n) {
		if to != nil {
			to.places[i] = h.places[first+i]
		}
		h.places[first+i] = nil
	}
	if to != nil {
		to.end.Store(int32(n))
		to.next.Store(0)
	}
	return n
}
