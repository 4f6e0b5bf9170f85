package timingwheel

import (
	"math"
	"math/bits"
	"time"
)

// A node that is due in tick t waits in the list of slot t modulo the number of slots. The list also holds nodes that are due whole rounds
// later: they stay when time passes the slot, and the instant in each node tells them apart. A bitmap says which lists are not empty, so passing
// empty slots costs next to nothing, and a jump of the clock, however long, at most one round.
//
// The tick of an instant is rounded up and the tick of the present down. That makes the wheel late instead of early. A caller that sleeps until
// Next then finds a whole tick's nodes due at once.
//
// Advance first gathers the due nodes into a list of their own, and then expires them from its front, so that expire may move and cancel any
// node. There are two such lists: while Advance empties one, nodes that expire schedules into the past go to the other, for the next Advance.

// The defaults of NewWheel. They make a round of 41 s, longer than most timeouts, and a table of 32 KiB.
const (
	defaultTick  = 10 * time.Millisecond
	defaultSlots = 4096
)

// The limits of NewWheel. The shortest tick is a microsecond, so tick numbers stay far below the largest int64.
const (
	minTick  = time.Microsecond
	minSlots = 64 // one word of the bitmap
	maxSlots = 1 << 24
)

// Node is one timer of a wheel. It is meant to be a field of the object that it belongs to, with a pointer to that object in Value, so that
// scheduling allocates nothing. A node whose Value is a pointer has 40 bytes. The zero value is ready for use. A node is in at most one wheel at
// a time, and must not be copied while it is in one. The lock that guards the wheel also guards the methods of its nodes.
type Node[T any] struct {
	_ noCopy

	// Value belongs to the owner of the node. The wheel never touches it.
	Value T

	// Owned by the wheel.
	prev, next *Node[T] // neighbours in the ring that makes up a list
	at         int64
	list       uint32 // 1 + the index of the list it is in, or 0
}

// noCopy makes go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Scheduled reports whether the node is in a wheel. It is, from Schedule until Cancel, or until just before expire is called with it.
func (n *Node[T]) Scheduled() bool { return n.list != 0 }

// At returns the instant that was last given to Schedule, in nanoseconds of the wheel's clock, or zero if there was none.
func (n *Node[T]) At() int64 { return n.at }

// Wheel is a hashed timing wheel (Varghese and Lauck 1987, scheme 6) without goroutine, lock or clock. Instants are nanoseconds on any clock
// that does not go back and is not negative. The wheel takes the present from the last Advance; before the first one the present is 0. A Wheel
// must be made by [NewWheel] and used by one goroutine at a time.
type Wheel[T any] struct {
	tick  int64
	slots int
	mask  int64
	last  int64 // the last tick whose instant is an int64

	lists []*Node[T] // the first node of each ring: one ring per slot, then two rings of due nodes
	bits  []uint64   // which slots are not empty, one bit each

	now     int64 // the tick up to which the due nodes have expired
	soonest int64 // the slots of all ticks before this one are empty; math.MaxInt64 if all slots are
	past    int   // the list for nodes that are scheduled at or before now: slots or slots+1
	len     int
}

// NewWheel makes an empty wheel. One round takes tick times slots. A node further ahead is examined once a round until it is due, so a round
// should be about as long as the usual timeout. The slots are rounded up to a power of two from 64 to 2²⁴ and cost 8 bytes each. A tick shorter
// than 1 µs is raised to 1 µs. Zero or less means the default: 10 ms, 4096 slots.
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

// Schedule makes n expire at the given instant: in the first Advance whose present has reached the tick at or after it. If n is scheduled
// already, it is moved. If the instant is in a tick that Advance has passed, n expires in the next Advance, whatever its present. The cost does
// not depend on the instant or the number of nodes.
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

// Cancel takes n out of the wheel and reports whether it was there. The cost does not depend on the number of nodes.
func (w *Wheel[T]) Cancel(n *Node[T]) bool {
	if n.list == 0 {
		return false
	}
	w.unlink(n)
	return true
}

// Advance tells the wheel the present time and calls expire for each node that is due: never for a node whose instant is after now, and always
// for a node whose instant is a tick or more before now. The order of the calls is not defined. A node is no longer scheduled when expire is
// called with it. The function expire may schedule and cancel this node and any other, but must not call Advance. A node that expire schedules
// into the past waits for the next Advance; a node that expire cancels does not expire. If expire panics, the due nodes that remain expire
// later.
//
// Empty slots cost nothing to pass, and Advance visits at most one round of slots. A present before the last one counts as the last one.
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

// gather moves the due nodes, in the slots from tick from up to the present, to the list due.
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
	for range len(w.bits) + 1 { // the first word is read twice: its upper bits first, its lower bits last
		if word != 0 {
			slot := int64(k*64 + bits.TrailingZeros64(word))
			return t + (slot-t)&w.mask
		}
		k = (k + 1) % len(w.bits)
		word = w.bits[k]
	}
	return math.MaxInt64
}

// Next returns an instant before which Advance has nothing to do, so that a caller may sleep until then. If no node is scheduled, ok is false.
// The instant is a lower bound, at most one round ahead: Advance may find no due node even then, and cancelling a node does not move the
// instant. The cost does not depend on the number of nodes.
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
