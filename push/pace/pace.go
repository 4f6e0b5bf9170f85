package pace

import (
	"container/heap"
	"math"

	"github.com/sluice-push/sluice/push"
)

const (
	// Never is a time that is never reached.
	Never = math.MaxInt64
	// Priorities is the number of priorities, from 0, the lowest.
	Priorities = push.MaxPriority + 1
	// StarvationThreshold is the time in nanoseconds after which a waiting subscription may have a turn whatever its priority.
	StarvationThreshold = second

	second = 1_000_000_000
	// saved is the time in nanoseconds for which unused bandwidth is kept.
	saved = second / 10
	// most is the largest bandwidth, and the largest number of bytes that one call of Consume counts.
	most = 1 << 32
	// longest bounds intervals and the time that sent bytes take, so that times do not overflow.
	longest = 1 << 60
)

// Item is a Pacer's state of one subscription. [NewItem] returns one; it must not be copied.
type Item[T any] struct {
	Value T // the subscription; the Pacer does not use it

	interval   int64
	last       int64 // when it was last served
	since      int64 // when its wait for a turn began
	priority   uint8
	state      state
	at         int32 // place in the heap
	prev, next *Item[T]
}

// state is the place of an item in its Pacer.
type state uint8

const (
	idle    state = iota // it has nothing to send
	delayed              // it has something to send, but its interval is not over: it is in the heap
	ready                // it waits for its turn in the queue of its priority
	served               // it has its turn
)

// NewItem returns the item of a subscription that is served at most once in interval nanoseconds. With interval 0 it is served whenever there is
// something to send. A priority out of range becomes the lowest or the highest.
func NewItem[T any](value T, interval int64, priority int) *Item[T] {
	it := &Item[T]{Value: value, last: -longest, interval: inBounds(interval)}
	it.priority = uint8(min(max(priority, 0), Priorities-1)) //nolint:gosec // small
	return it
}

// inBounds keeps intervals in a range in which times do not overflow.
func inBounds(interval int64) int64 { return min(max(interval, 0), longest) }

// dueAt returns the time at which the item's interval is over.
func (it *Item[T]) dueAt() int64 { return it.last + it.interval }

// Interval returns the shortest time between two deliveries, in nanoseconds.
func (it *Item[T]) Interval() int64 { return it.interval }

// fifo is a queue of items that wait for a turn, in the order in which their waits began.
type fifo[T any] struct{ first, last *Item[T] }

// Pacer decides which of one client's subscriptions is served when. The zero Pacer is ready for use and does not limit the bandwidth.
type Pacer[T any] struct {
	bandwidth  int64 // bytes a second; 0: no bound
	drainedAt  int64 // the time at which all sent bytes are through
	queues     [Priorities]fifo[T]
	ready      int            // items in all queues
	delayed    delayedHeap[T] // by the ends of their intervals
	outOfOrder bool           // the last turn went to the item that had waited longest, not to the highest priority
}

// SetBandwidth limits the bytes a second from now on, at most 4 GiB; 0: no limit. Bytes that were sent before still count.
func (p *Pacer[T]) SetBandwidth(now, bytes int64) {
	debt := int64(0)
	if p.drainedAt > now && p.bandwidth > 0 {
		debt = bytesIn(p.drainedAt-now, p.bandwidth)
	}
	p.bandwidth, p.drainedAt = min(max(bytes, 0), most), now
	p.Consume(now, debt)
}

// Bandwidth returns the largest number of bytes a second; 0: no limit.
func (p *Pacer[T]) Bandwidth() int64 { return p.bandwidth }

// SetInterval changes an item's interval. The new interval also begins when the item was last served.
func (p *Pacer[T]) SetInterval(it *Item[T], now, interval int64) {
	it.interval = inBounds(interval)
	switch {
	case it.state == delayed && it.dueAt() <= now:
		heap.Remove(&p.delayed, int(it.at))
		p.queue(it, now)
	case it.state == delayed:
		heap.Fix(&p.delayed, int(it.at))
	}
}

// Allows reports whether an item that has something to send may be served at once, without Add and Next: its interval is over, bandwidth is left,
// and no other item waits for a turn. A caller that serves it calls Consume and Served, as after a turn.
func (p *Pacer[T]) Allows(it *Item[T], now int64) bool {
	return p.ready == 0 && it.state == idle && it.dueAt() <= now && p.hasBandwidth(now) && (len(p.delayed) == 0 || p.delayed[0].dueAt() > now)
}

func (p *Pacer[T]) hasBandwidth(now int64) bool { return p.bandwidth == 0 || p.drainedAt <= now }

// Add tells the Pacer that an item has something to send. A repeated call changes nothing.
func (p *Pacer[T]) Add(it *Item[T], now int64) {
	switch {
	case it.state != idle:
	case it.dueAt() > now:
		it.state = delayed
		heap.Push(&p.delayed, it)
	default:
		p.queue(it, now)
	}
}

// queue puts an item at the end of the queue of its priority.
func (p *Pacer[T]) queue(it *Item[T], now int64) {
	l := &p.queues[it.priority]
	it.state, it.since, it.prev, it.next = ready, now, l.last, nil
	if l.last == nil {
		l.first = it
	} else {
		l.last.next = it
	}
	l.last = it
	p.ready++
}

// unlink removes an item from the queue of its priority.
func (p *Pacer[T]) unlink(it *Item[T]) {
	l := &p.queues[it.priority]
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

// Next returns the item that has its turn now, or nil if none has. The caller reports the result by [Pacer.Consume] and [Pacer.Served]; until then
// the item has no other turn.
func (p *Pacer[T]) Next(now int64) *Item[T] {
	for len(p.delayed) > 0 && p.delayed[0].dueAt() <= now {
		p.queue(heap.Pop(&p.delayed).(*Item[T]), now)
	}
	if p.ready == 0 || !p.hasBandwidth(now) {
		return nil
	}
	var first, oldest *Item[T]
	for i := range p.queues {
		it := p.queues[i].first
		if it == nil {
			continue
		}
		first = it // later queues have higher priorities
		if oldest == nil || it.since <= oldest.since {
			oldest = it
		}
	}
	p.outOfOrder = !p.outOfOrder && oldest != first && now-oldest.since >= StarvationThreshold
	if p.outOfOrder {
		first = oldest
	}
	p.unlink(first)
	first.state = served
	return first
}

// Available returns the number of bytes that fit into a turn now, at least 1. The last frame of a turn may exceed it.
func (p *Pacer[T]) Available(now int64) int {
	if p.bandwidth == 0 {
		return math.MaxInt
	}
	return int(max(bytesIn(now-max(p.drainedAt, now-saved), p.bandwidth), 1))
}

// Consume counts sent bytes. A negative number takes bytes back that were counted but not sent.
func (p *Pacer[T]) Consume(now, bytes int64) {
	if p.bandwidth == 0 {
		return
	}
	bytes = min(max(bytes, -most), most)
	p.drainedAt = min(max(p.drainedAt, now-saved)+bytes*second/p.bandwidth, now+longest)
}

// bytesIn returns the number of bytes of a bandwidth in d nanoseconds.
func bytesIn(d, bandwidth int64) int64 {
	return d/second*bandwidth + d%second*bandwidth/second
}

// Served ends an item's turn. If all says that everything was sent, the item's interval begins. Otherwise the item waits for its next turn,
// behind the others.
func (p *Pacer[T]) Served(it *Item[T], now int64, all bool) {
	switch {
	case it.state != served && it.state != idle: // it was removed, or served out of turn and added meanwhile
	case all:
		it.state, it.last = idle, now
	default:
		p.queue(it, now)
	}
}

// Skipped ends the service of an item that had nothing to send. Its interval does not begin.
func (p *Pacer[T]) Skipped(it *Item[T]) {
	if it.state == served {
		it.state = idle
	}
}

// Remove forgets an item, in any state.
func (p *Pacer[T]) Remove(it *Item[T]) {
	switch it.state {
	case delayed:
		heap.Remove(&p.delayed, int(it.at))
	case ready:
		p.unlink(it)
	case idle, served:
	}
	it.state = idle
}

// Len returns the number of items that wait for their interval or a turn.
func (p *Pacer[T]) Len() int { return p.ready + len(p.delayed) }

// NextTime returns the time from which Next may return an item, [Never] if no item has something to send. The time may be in the past.
func (p *Pacer[T]) NextTime() int64 {
	var at int64
	switch {
	case p.ready > 0:
	case len(p.delayed) > 0:
		at = p.delayed[0].dueAt()
	default:
		return Never
	}
	if p.bandwidth > 0 {
		at = max(at, p.drainedAt)
	}
	return at
}

// delayedHeap is a heap of items by the ends of their intervals: see package container/heap.
type delayedHeap[T any] []*Item[T]

func (h delayedHeap[T]) Len() int           { return len(h) }
func (h delayedHeap[T]) Less(i, j int) bool { return h[i].dueAt() < h[j].dueAt() }
func (h delayedHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = int32(i), int32(j) //nolint:gosec // as many as a client has subscriptions
}

// Push appends an item.
func (h *delayedHeap[T]) Push(x any) {
	it := x.(*Item[T])
	it.at = int32(len(*h)) //nolint:gosec // as above
	*h = append(*h, it)
}

// Pop removes and returns the last item.
func (h *delayedHeap[T]) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return it
}
