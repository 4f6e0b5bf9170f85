package timingwheel

import (
	"math"
	"math/bits"
	"time"
)

// A node due in tick t waits in the list of slot t modulo the number of slots, together with those due whole rounds later, which
// stay when the hand passes: the instant in each node tells them apart. A bitmap says which lists are not empty, so passing empty
// slots costs next to nothing and a jump of the clock, however long, at most one round.
//
// The tick of an instant is rounded up and the tick of the present down. That makes the wheel late instead of early, and lets a
// caller who sleeps until Next find a whole tick's nodes due at once.
//
// What is due is first gathered into a list of its own and then expired from its front, so that expire may move and cancel any
// node. Two lists take turns: while Advance empties one, what expire schedules into the past gathers in the other, for the next time.

// The defaults of NewWheel: a round of 41 s, so that the usual timeouts are looked at once, in 32 KiB.
const (
	defaultTick  = 10 * time.Millisecond
	defaultSlots = 4096
)

// The limits of NewWheel. With a tick of a microsecond tick numbers stay far from the end of int64.
const (
	minTick  = time.Microsecond
	minSlots = 64 // one word of the bitmap
	maxSlots = 1 << 24
)

// Node is one timer of a wheel. It is meant to be a field of what it belongs to, with a pointer back in Value, so that scheduling
// allocates nothing; with a pointer it has 40 bytes. The zero value is ready. A node is in at most one wheel at a time and must not be
// copied while it is there. Its methods are guarded by whatever guards the wheel.
type Node[T any] struct {
	_ noCopy

	// Value is the owner's, the wheel never touches it.
	Value T

	// Owned by the wheel.
	prev, next *Node[T] // a ring
	at         int64
	list       uint32 // 1 + the index of the list it is in, or 0
}

// noCopy makes go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Scheduled reports whether the node is in a wheel: it is from Schedule until Cancel or until just before expire is called with it.
func (n *Node[T]) Scheduled() bool { return n.list != 0 }

// At returns the instant last given to Schedule, in the nanoseconds of the wheel's clock, or zero if there was none.
func (n *Node[T]) At() int64 { return n.at }

// Wheel is a hashed timing wheel (Varghese and Lauck 1987, scheme 6) without goroutine, lock or clock. Instants are nanoseconds on
// any clock that does not go back and is not negative; the wheel knows of the present only what Advance was last told, and before that
// believes it to be 0. It must be made by [NewWheel] and used by one goroutine at a time.
type Wheel[T any] struct {
	tick  int64
	slots int
	mask  int64
	last  int64 // the last tick whose instant is an int64

	lists []*Node[T] // the first of each ring: slots of them, and two that hold what is due
	bits  []uint64   // which slots are not empty

	now     int64 // the tick up to which everything was handled
	soonest int64 // no slot before this tick's has anything to look at; math.MaxInt64 when all are empty
	past    int   // the list for what is scheduled at or before now: slots or slots+1
	len     int
}

// NewWheel makes an empty wheel. One round takes tick times slots; a node further ahead is looked at once a round until it is due,
// so a round should be about as long as the usual timeout. The slots are rounded up to a power of two from 64 to 2²⁴ and cost 8
// bytes each. A tick shorter than 1 µs is 1 µs. Zero or less means the default: 10 ms, 4096 slots.
func NewWheel[T any](tick time.Duration, slots int) *Wheel[T] {
	if tick <= 0 {
		tick = defaultTick
	}
	tick = max(tick, minTick)
	if slots <= 0 {
		slots = defaultSlots
	}
	slots = min(max(slots, minSlots), maxSlots)
	slots = 1 << bits.Len(uint(slots-1))
	return &Wheel[T]{
		tick:    int64(tick),
		slots:   slots,
		mask:    int64(slots - 1),
		last:    math.MaxInt64 / int64(tick),
		lists:   make([]*Node[T], slots+2),
		bits:    make([]uint64, slots/64),
		soonest: math.MaxInt64,
		past:    slots,
	}
}

// Len returns how many nodes are scheduled.
func (w *Wheel[T]) Len() int { return w.len }

// Schedule makes n expire at the given instant: in the first Advance whose present has reached the tick at or after it. A node that is
// scheduled already is moved. An instant in a tick that Advance has passed means the next Advance, whatever its present. It costs
// the same for any instant and any number of nodes.
func (w *Wheel[T]) Schedule(n *Node[T], at int64) {
	n.at = at
	t := at / w.tick
	if at%w.tick > 0 {
		t++
	}
	list := w.past
	if t > w.now {
		list = int(t & w.mask)
		w.soonest = min(w.soonest, w.now+1+(t-w.now-1)&w.mask)
	}
	if n.list == uint32(list)+1 {
		return
	}
	if n.list != 0 {
		w.unlink(n)
	}
	w.link(n, list)
}

// Cancel takes n out of the wheel and reports whether it was there. It costs the same for any number of nodes.
func (w *Wheel[T]) Cancel(n *Node[T]) bool {
	if n.list == 0 {
		return false
	}
	w.unlink(n)
	return true
}

// Advance tells the wheel the present and calls expire for each node that is due: never for one whose instant is after now, and
// always for one whose instant is a tick or more before it. Their order is not defined. A node is no longer scheduled when expire is
// called with it; expire may schedule and cancel this one and any other, but not call Advance. What it schedules into the past
// waits for the next Advance; what it cancels is not expired any more. If expire panics, what was still due expires later.
//
// Passing time costs nothing for empty slots and never more than one round. A present before the last one counts as the last one.
func (w *Wheel[T]) Advance(now int64, expire func(*Node[T])) {
	due := w.past
	w.past = 2*w.slots + 1 - due
	if t := now / w.tick; t > w.now {
		from := w.soonest
		w.now, w.soonest = t, max(w.soonest, t+1)
		if from <= t {
			w.gather(from, due)
		}
	}
	for n := w.lists[due]; n != nil; n = w.lists[due] {
		w.unlink(n)
		expire(n)
	}
}

// gather moves what is due, in the slots from tick from up to the present, to the list due.
func (w *Wheel[T]) gather(from int64, due int) {
	last := min(w.now, from+w.mask)
	edge := w.now * w.tick
	t := w.filled(from)
	for ; t <= last; t = w.filled(t + 1) {
		slot := int(t & w.mask)
		n := w.lists[slot]
		for end := n.prev; ; {
			next, isLast := n.next, n == end
			if n.at <= edge {
				w.unlink(n)
				w.link(n, due)
			}
			if isLast {
				break
			}
			n = next
		}
	}
	w.soonest = w.filled(w.now + 1)
}

// filled returns the first tick from t on, within one round, whose slot is not empty, or math.MaxInt64.
func (w *Wheel[T]) filled(t int64) int64 {
	i := int(t & w.mask)
	k := i / 64
	word := w.bits[k] &^ (1<<(i%64) - 1)
	for range len(w.bits) + 1 { // the first word twice: its upper end, at last its lower one
		if word != 0 {
			slot := int64(k*64 + bits.TrailingZeros64(word))
			return t + (slot-t)&w.mask
		}
		k = (k + 1) % len(w.bits)
		word = w.bits[k]
	}
	return math.MaxInt64
}

// Next returns an instant before which Advance has nothing to do, so that a caller may sleep until then; ok is false when nothing is
// scheduled. Advance may find nothing to expire even then: the instant is a lower bound, never more than one round ahead, and
// cancelling a node does not move it. It costs the same for any number of nodes.
func (w *Wheel[T]) Next() (at int64, ok bool) {
	switch {
	case w.len == 0:
		return 0, false
	case w.lists[w.slots] != nil || w.lists[w.slots+1] != nil:
		return w.now * w.tick, true
	case w.soonest > w.last:
		return math.MaxInt64, true
	}
	return w.soonest * w.tick, true
}

func (w *Wheel[T]) link(n *Node[T], list int) {
	if first := w.lists[list]; first == nil {
		n.prev, n.next = n, n
		w.lists[list] = n
		if list < w.slots {
			w.bits[list/64] |= 1 << (list % 64)
		}
	} else {
		n.prev, n.next = first.prev, first
		n.prev.next, first.prev = n, n
	}
	n.list = uint32(list) + 1
	w.len++
}

func (w *Wheel[T]) unlink(n *Node[T]) {
	list := int(n.list) - 1
	if n.next == n {
		w.lists[list] = nil
		if list < w.slots {
			w.bits[list/64] &^= 1 << (list % 64)
		}
	} else {
		if w.lists[list] == n {
			w.lists[list] = n.next
		}
		n.prev.next, n.next.prev = n.next, n.prev
	}
	n.prev, n.next, n.list = nil, nil, 0
	w.len--
}
