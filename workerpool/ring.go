package workerpool

import "sync/atomic"

// The sizes of rings, in places of 8 bytes. The smallest is kept for good; an empty ring keeps no more than the largest.
const (
	minRing  = 16
	keptRing = 2048 // DefaultQueue, and what is on its way to free workers
)

// ring is a first-in first-out queue of tasks in an array whose size is a power of two. It grows as needed, whoever has it knows its
// bound, and gives memory back: all that is beyond keptRing when it is empty, and half when it has for long not been filled by a
// quarter. Not at once, because a load that goes up and down would copy at each turn. The zero value is empty. It is guarded by its
// owner's lock.
type ring struct {
	places []func()
	head   int // the place of the oldest
	n      int
	quiet  int // how many were taken since a quarter was filled
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

// pop returns the oldest, of which there must be one.
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

// clear forgets everything, and how many that were is returned.
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

// batchSize is how many tasks are taken at once at most.
const batchSize = 32

// hand is what one worker has taken and not begun. It is filled, and robbed, under the lock of the queue the tasks came from; the
// worker that owns it takes the next task without that lock. Each task goes to whoever moves next over it, so to one only. A place
// is written again only in a fill, which comes after all robbers, because they held the lock, and after its owner's last look.
type hand struct {
	places *[batchSize]func() // made by the first fill
	next   atomic.Int32       // may be beyond end
	end    atomic.Int32       // written under the lock
}

// take returns the next task, or nil. Who is not the owner needs the lock.
func (h *hand) take() func() {
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

// left returns how many tasks there are. Without the lock it is a hint only, while the hand is being filled or robbed.
func (h *hand) left() int { return max(0, int(h.end.Load()-h.next.Load())) }

// fill moves n tasks from the ring into the hand, which must be empty. It needs the lock.
func (h *hand) fill(r *ring, n int) {
	if h.places == nil {
		h.places = new([batchSize]func())
	}
	for i := range n {
		h.places[i] = r.pop()
	}
	h.end.Store(int32(n))
	h.next.Store(0)
}

// rob moves up to n tasks, the oldest first, to another hand, which must be empty, or drops them if that is nil. It returns how many.
// It needs the lock.
func (h *hand) rob(n int, to *hand) int {
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
