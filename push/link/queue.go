package link

import (
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
)

// messageBytes is what a message in a queue counts besides its data.
const messageBytes = 200

// queue holds what a Follow stream has to send: it is the follower of a partition at the hub. It never makes the partition wait. If the gateway does not
// read fast enough, the queue is emptied, and the gateway is told to load what it has missed; so a slow gateway gets the newest rows of tables only.
//
// While the stream is paused, nothing but a Reset is taken from the queue.
type queue struct {
	limit int           // bytes
	wake  chan struct{} // receives when there may be something to take

	mu       sync.Mutex // guards the following
	wanted   map[string]struct{}
	items    []item
	bytes    int
	head     uint64 // everything up to here has come from the broker
	sent     uint64 // everything up to here has been taken, or was not wanted
	isShort  bool   // the queue was emptied; nothing is added until the gateway is told
	isPaused bool
	isQuiet  bool // the sender need not be woken for publications that are not wanted
}

// item is an event to be sent. Of a Batch it is one message.
type item struct {
	kind    wire.Kind
	size    int            // what it counts in a queue
	message broker.Message // of a Gap its channel and offset
	start   push.Position  // of a Reset
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1), wanted: map[string]struct{}{}, isPaused: true}
}

// begin sets the position from which the partition is followed.
func (q *queue) begin(at push.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) > 0 && q.items[0].kind == wire.Reset {
		return // the position is of an older epoch
	}
	q.head = max(q.head, at.Offset)
	q.sent = max(q.sent, at.Offset)
}

// Deliver implements broker.Follower.
func (q *queue) Deliver(batch []broker.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.head = batch[len(batch)-1].Offset
	anyWanted, isWanted := false, false
	for i := range batch {
		if i == 0 || batch[i].Channel != batch[i-1].Channel {
			_, isWanted = q.wanted[batch[i].Channel]
		}
		if isWanted {
			anyWanted = true
			q.addLocked(wire.Batch, &batch[i])
		}
	}
	if anyWanted || !q.isQuiet {
		q.signal()
	}
}

// addLocked adds an item. If there is no room, all items are dropped except a Reset, which is always the first.
func (q *queue) addLocked(kind wire.Kind, m *broker.Message) {
	if q.isShort {
		return
	}
	size := m.Size() + messageBytes
	if q.bytes+size > q.limit && len(q.items) > 0 {
		kept := 0
		if q.items[0].kind == wire.Reset {
			kept = 1
		}
		clear(q.items[kept:])
		q.items, q.bytes, q.isShort = q.items[:kept], 0, true
		return
	}
	q.items = append(q.items, item{kind: kind, size: size, message: *m})
	q.bytes += size
}

// Gap implements broker.Follower.
func (q *queue) Gap(channel string, offset uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if channel == "" {
		q.head = max(q.head, offset)
	}
	q.addLocked(wire.Gap, &broker.Message{Channel: channel, Publication: push.Publication{Offset: offset}})
	q.signal()
}

// Advance implements broker.Follower.
func (q *queue) Advance(offset uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head = offset; !q.isQuiet {
		q.signal()
	}
}

// Reset implements broker.Follower. What waits is of the old epoch.
func (q *queue) Reset(start push.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
	q.items = append(q.items[:0], item{kind: wire.Reset, start: start})
	q.bytes, q.head, q.sent, q.isShort, q.isPaused = 0, start.Offset, start.Offset, false, false
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// change changes which channels are wanted. Everything of them above the offset that it returns is queued, or the gateway is told that it was left out.
func (q *queue) change(want, unwant []string, resume bool) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, channel := range unwant {
		delete(q.wanted, channel)
	}
	for _, channel := range want {
		q.wanted[channel] = struct{}{}
	}
	if resume {
		q.isPaused = false
		q.signal()
	}
	return q.head
}

// wants reports whether a channel is wanted.
func (q *queue) wants(channel string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.wanted[channel]
	return ok
}

// take returns what is to be sent next: items, in exchange for spare memory; or that what is wanted up to an offset was left out, and then the stream is
// paused; or, if the caller asks for it, that everything wanted up to an offset has been sent. If there is nothing to send, everything is zero. Unless
// the caller asks how far the partition is, it is not woken for that either.
func (q *queue) take(spare []item, advance bool) (items []item, upTo uint64, skipped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isQuiet = !advance
	switch {
	case q.isPaused:
		return nil, 0, false
	case len(q.items) > 0:
		items, q.items, q.bytes = q.items, spare[:0], 0
		if q.isShort {
			return items, 0, false // they do not reach up to head
		}
		q.sent = q.head
		return items, q.head, false
	case q.isShort:
		q.isShort, q.isPaused, q.sent = false, true, q.head
		return nil, q.head, true
	case advance && q.head > q.sent:
		q.sent = q.head
		return nil, q.head, false
	}
	return nil, 0, false
}
