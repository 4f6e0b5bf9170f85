package pace

import (
	"container/heap"
	"math"

	"github.com/sluice-push/sluice/push"
)

const (
	// Never is a time that does not come.
	Never = math.MaxInt64
	// Priorities is how many there are, from 0, the lowest.
	Priorities = push.MaxPriority + 1
	// Patience is for how long a subscription may wait, in nanoseconds, before it has a turn whatever its priority.
	Patience = second

	second = 1_000_000_000
	// saved is for how long bandwidth that was not used is kept.
	saved = second / 10
	// most is as many bytes as one call of Spend counts for, and the largest bandwidth.
	most = 1 << 32
	// longest is for how long a debt can last: for ever, but so that times do not overflow.
	longest = 1 << 60
)

// Item is what a Pacer knows of one subscription. [NewItem] makes it; it must not be copied.
type Item[T any] struct {
	Value T // the subscription; the Pacer does not look at it

	interval   int64
	last       int64 // when it was last served
	since      int64 // since when it waits for its turn
	priority   uint8
	state      state
	at         int32 // place in the heap
	prev, next *Item[T]
}

// state says where an item is.
type state uint8

const (
	idle   state = iota // nothing for it
	shut                // there is something, but its interval is not over: in the heap
	ready               // waits for its turn: in the line of its priority
	served              // has its turn
)

// NewItem returns the item of a subscription, which is served at most once in interval nanoseconds, 0: whenever there is something.
// A priority below 0 or above the highest counts as the nearest.
func NewItem[T any](value T, interval int64, priority int) *Item[T] {
	it := &Item[T]{Value: value, last: -longest, interval: inBounds(interval)}
	it.priority = uint8(min(max(priority, 0), Priorities-1)) //nolint:gosec // small
	return it
}

func inBounds(interval int64) int64 { return min(max(interval, 0), longest) }

// opens returns when the item's interval is over.
func (it *Item[T]) opens() int64 { return it.last + it.interval }

// Interval returns the shortest time between two services, in nanoseconds.
func (it *Item[T]) Interval() int64 { return it.interval }

// line is the items that wait for a turn, in the order in which they began to.
type line[T any] struct{ first, last *Item[T] }

// Pacer decides which of one client's subscriptions is served when. The zero Pacer bounds no bandwidth.
type Pacer[T any] struct {
	bandwidth int64 // bytes a second; 0: no bound
	free      int64 // when all that was sent is through
	lines     [Priorities]line[T]
	ready     int        // items in all lines
	shut      opening[T] // by when they open
	kept      bool       // the last turn was out of order, of who had waited too long
}

// SetBandwidth bounds how many bytes a second are sent from now on, at most 4 GiB; 0: no bound. What was sent already counts.
func (p *Pacer[T]) SetBandwidth(now, bytes int64) {
	debt := int64(0)
	if p.free > now && p.bandwidth > 0 {
		debt = bytesIn(p.free-now, p.bandwidth)
	}
	p.bandwidth, p.free = min(max(bytes, 0), most), now
	p.Spend(now, debt)
}

// Bandwidth returns how many bytes a second may be sent; 0: no bound.
func (p *Pacer[T]) Bandwidth() int64 { return p.bandwidth }

// SetInterval changes an item's interval. The time since it was last served counts.
func (p *Pacer[T]) SetInterval(it *Item[T], now, interval int64) {
	it.interval = inBounds(interval)
	switch {
	case it.state == shut && it.opens() <= now:
		heap.Remove(&p.shut, int(it.at))
		p.queue(it, now)
	case it.state == shut:
		heap.Fix(&p.shut, int(it.at))
	}
}

// Free reports whether an item that has something may be served at once: its interval is over, bandwidth is left, and nobody waits.
// Whoever does so says Spend and Served as after a turn.
func (p *Pacer[T]) Free(it *Item[T], now int64) bool {
	return p.ready == 0 && it.state == idle && it.opens() <= now && p.isFree(now) && (len(p.shut) == 0 || p.shut[0].opens() > now)
}

func (p *Pacer[T]) isFree(now int64) bool { return p.bandwidth == 0 || p.free <= now }

// Add says that there is something for an item. To say so again changes nothing.
func (p *Pacer[T]) Add(it *Item[T], now int64) {
	switch {
	case it.state != idle:
	case it.opens() > now:
		it.state = shut
		heap.Push(&p.shut, it)
	default:
		p.queue(it, now)
	}
}

// queue puts an item at the end of its line.
func (p *Pacer[T]) queue(it *Item[T], now int64) {
	l := &p.lines[it.priority]
	it.state, it.since, it.prev, it.next = ready, now, l.last, nil
	if l.last == nil {
		l.first = it
	} else {
		l.last.next = it
	}
	l.last = it
	p.ready++
}

// unlink takes an item out of its line.
func (p *Pacer[T]) unlink(it *Item[T]) {
	l := &p.lines[it.priority]
	if it.prev == nil {
		l.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		l.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.prev, it.next = nil, nil
	p.ready--
}

// Next returns the item that has its turn now, nil if none has. The caller says what became of it by [Pacer.Spend] and
// [Pacer.Served]; until then it does not have another.
func (p *Pacer[T]) Next(now int64) *Item[T] {
	for len(p.shut) > 0 && p.shut[0].opens() <= now {
		p.queue(heap.Pop(&p.shut).(*Item[T]), now)
	}
	if p.ready == 0 || !p.isFree(now) {
		return nil
	}
	var first, oldest *Item[T]
	for i := range p.lines {
		it := p.lines[i].first
		if it == nil {
			continue
		}
		first = it // the last one found is of the highest priority
		if oldest == nil || it.since <= oldest.since {
			oldest = it
		}
	}
	p.kept = !p.kept && oldest != first && now-oldest.since >= Patience
	if p.kept {
		first = oldest
	}
	p.unlink(first)
	first.state = served
	return first
}

// Room returns how many bytes fit into a turn that is had now, at least 1. The last frame of a turn may exceed it.
func (p *Pacer[T]) Room(now int64) int {
	if p.bandwidth == 0 {
		return math.MaxInt
	}
	return int(max(bytesIn(now-max(p.free, now-saved), p.bandwidth), 1))
}

// Spend counts bytes that are sent; fewer than none, if it turns out that they were not.
func (p *Pacer[T]) Spend(now, bytes int64) {
	if p.bandwidth == 0 {
		return
	}
	bytes = min(max(bytes, -most), most)
	p.free = min(max(p.free, now-saved)+bytes*second/p.bandwidth, now+longest)
}

// bytesIn returns how many bytes a bandwidth makes in so many nanoseconds.
func bytesIn(d, bandwidth int64) int64 {
	return d/second*bandwidth + d%second*bandwidth/second
}

// Served ends an item's turn. If it has all there was its interval begins; otherwise it waits for its next turn, behind the others.
func (p *Pacer[T]) Served(it *Item[T], now int64, all bool) {
	switch {
	case it.state != served && it.state != idle: // it was removed, or served out of turn and added meanwhile
	case all:
		it.state, it.last = idle, now
	default:
		p.queue(it, now)
	}
}

// Passed ends the turn of an item for which there turned out to be nothing: its interval does not begin.
func (p *Pacer[T]) Passed(it *Item[T]) {
	if it.state == served {
		it.state = idle
	}
}

// Remove forgets an item.
func (p *Pacer[T]) Remove(it *Item[T]) {
	switch it.state {
	case shut:
		heap.Remove(&p.shut, int(it.at))
	case ready:
		p.unlink(it)
	case idle, served:
	}
	it.state = idle
}

// Len returns how many items wait, for their interval or for a turn.
func (p *Pacer[T]) Len() int { return p.ready + len(p.shut) }

// When returns from when on Next may return something, [Never] if nobody has anything. It may be in the past.
func (p *Pacer[T]) When() int64 {
	var at int64
	switch {
	case p.ready > 0:
	case len(p.shut) > 0:
		at = p.shut[0].opens()
	default:
		return Never
	}
	if p.bandwidth > 0 {
		at = max(at, p.free)
	}
	return at
}

// opening is a heap of items by when they open, see package container/heap.
type opening[T any] []*Item[T]

func (h opening[T]) Len() int           { return len(h) }
func (h opening[T]) Less(i, j int) bool { return h[i].opens() < h[j].opens() }
func (h opening[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = int32(i), int32(j) //nolint:gosec // as many as a client has subscriptions
}

// Push appends an item.
func (h *opening[T]) Push(x any) {
	it := x.(*Item[T])
	it.at = int32(len(*h)) //nolint:gosec // as above
	*h = append(*h, it)
}

// Pop takes the last item away.
func (h *opening[T]) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return it
}
