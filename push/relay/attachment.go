package relay

import (
	"context"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// attachment is the registration of a follower with a partition.
type attachment struct {
	broker    *Broker
	partition *served
	follower  Follower
	start     push.Position // set by begin

	mu         sync.Mutex     // guards the following
	wanted     map[string]int // how often each channel is wanted; nil once detached
	isDetached bool
}

// begin adds the follower to the partition. The partition may not have reached the head that it has at the broker: what it still gets up to there is left
// out.
func (a *attachment) begin(head push.Position) {
	f := &a.follower
	f.mu.Lock() // nothing is delivered before the gaps are told
	defer f.mu.Unlock()
	a.start = a.partition.Follow(f)
	if a.start.Epoch == head.Epoch && a.start.Offset < head.Offset {
		a.start, f.to = head, &fromHead{f.to, head.Offset}
	}
	for _, g := range f.missed {
		f.callLocked(func(to broker.Follower) { to.Gap(g.channel, g.offset) })
	}
	f.missed = nil
}

// Start implements broker.Attachment.
func (a *attachment) Start() push.Position { return a.start }

// Want implements broker.Attachment.
func (a *attachment) Want(ctx context.Context, channel string) error {
	if err := a.partition.Want(ctx, channel); err != nil {
		return err
	}
	a.mu.Lock()
	if !a.isDetached {
		a.wanted[channel]++
		a.mu.Unlock()
		return nil
	}
	a.mu.Unlock()
	a.partition.Unwant(channel)
	return broker.ErrClosed
}

// Unwant implements broker.Attachment.
func (a *attachment) Unwant(channel string) {
	a.mu.Lock()
	n := a.wanted[channel]
	switch {
	case n > 1:
		a.wanted[channel] = n - 1
	case n == 1:
		delete(a.wanted, channel)
	}
	a.mu.Unlock()
	if n > 0 {
		a.partition.Unwant(channel)
	}
}

// Detach implements broker.Attachment.
func (a *attachment) Detach() {
	a.follower.end()
	a.mu.Lock()
	first, wanted := !a.isDetached, a.wanted
	a.isDetached, a.wanted = true, nil
	a.mu.Unlock()
	if !first {
		return
	}
	a.partition.Unfollow(&a.follower)
	for channel, n := range wanted {
		for range n {
			a.partition.Unwant(channel)
		}
	}
	a.broker.mu.Lock()
	delete(a.broker.attachments, a)
	a.broker.mu.Unlock()
}
