package memory

import (
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// attachment is the registration of a follower with a partition: a queue, and the goroutine that delivers its messages.
type attachment struct {
	broker.WholePartition
	partition *partition
	follower  broker.Follower
	start     push.Position
	ended     chan struct{} // closed when the goroutine has ended

	// guarded by partition.mu
	changed *sync.Cond // signalled when queue or stopped has changed
	queue   []broker.Message
	bytes   int64 // of queue
	stopped bool
}

// attach registers a follower for all publications from now on.
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

// Detach ends delivery, drops the queue, and returns when no method of the follower is running any more. It may be called again.
func (a *attachment) Detach() {
	p := a.partition
	p.mu.Lock()
	a.stopLocked()
	p.attached = slices.DeleteFunc(p.attached, func(other *attachment) bool { return other == a })
	p.makeRoomLocked()
	p.mu.Unlock()
	<-a.ended
}

// run delivers the queue, as one batch at a time, until the attachment is stopped.
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

// take waits for messages and returns them, none if the attachment was stopped. done are the messages that were taken before: the caller no
// longer uses them, and their slice becomes the queue.
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

// queueLocked adds a message. The caller has checked that there is room.
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
