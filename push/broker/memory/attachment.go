package memory

import (
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// attachment is a follower's hold on a partition: a queue, and the goroutine that hands it over.
type attachment struct {
	partition *partition
	follower  broker.Follower
	start     push.Position
	ended     chan struct{} // closed when the goroutine has ended

	// guarded by partition.mu
	changed *sync.Cond // queue or stopped
	queue   []broker.Message
	bytes   int64 // of queue
	stopped bool
}

// attach makes a follower see all that is published from now on.
func (p *partition) attach(f broker.Follower) (*attachment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, broker.ErrClosed
	}
	a := &attachment{
		partition: p,
		follower:  f,
		start:     p.positionLocked(),
		ended:     make(chan struct{}),
		changed:   sync.NewCond(&p.mu),
	}
	p.attached = append(p.attached, a)
	go a.run()
	return a, nil
}

// Start is the partition's head as it was when the follower was attached.
func (a *attachment) Start() push.Position { return a.start }

// Detach ends delivery: what is queued is dropped. It waits until the follower is left alone, and may be called again.
func (a *attachment) Detach() {
	p := a.partition
	p.mu.Lock()
	a.stopLocked()
	p.attached = slices.DeleteFunc(p.attached, func(other *attachment) bool { return other == a })
	p.makeRoomLocked()
	p.mu.Unlock()
	<-a.ended
}

// run hands over what is queued, all at once, until the attachment is stopped.
func (a *attachment) run() {
	defer close(a.ended)
	var batch []broker.Message
	for {
		batch = a.take(batch)
		if len(batch) == 0 {
			return
		}
		a.follower.Deliver(batch)
	}
}

// take waits for messages and returns them, none when the attachment was stopped. The messages that were taken before are done
// with: their slice becomes the queue.
func (a *attachment) take(done []broker.Message) []broker.Message {
	clear(done)
	p := a.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(a.queue) == 0 && !a.stopped {
		a.changed.Wait()
	}
	if a.stopped {
		return nil
	}
	batch := a.queue
	a.queue, a.bytes = done[:0], 0
	p.makeRoomLocked()
	return batch
}

func (a *attachment) isFullLocked() bool {
	o := a.partition.opts
	return len(a.queue) >= o.Queue || o.QueueBytes > 0 && a.bytes >= o.QueueBytes
}

// queueLocked adds a message; the caller has seen that there is room.
func (a *attachment) queueLocked(m broker.Message) {
	a.queue = append(a.queue, m)
	a.bytes += int64(m.Size())
	if len(a.queue) == 1 {
		a.changed.Signal()
	}
}

func (a *attachment) stopLocked() {
	a.stopped = true
	a.queue, a.bytes = nil, 0
	a.changed.Signal()
}
