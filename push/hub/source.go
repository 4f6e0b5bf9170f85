package hub

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/relay"
)

// Source returns the hub as a broker for other processes, to be served by push/link: followers get what the hub gets, and loads are answered from
// the hub's logs. However many followers there are, the hub has one attachment to each partition of its broker. Package relay says what differs
// from that broker.
//
// A follower gets a publication when the hub's logs have it. A follower that blocks holds up the partition for all, the hub's own clients included; the
// followers of push/link do not block. A load takes a channel into memory as a subscription does: Options.Linger, UnusedChannels and LogBytes hold
// for it. If the budget has made a stream forget entries that the broker may still have, the broker is asked. Publications count in the hub's
// Stats.
//
// The caller closes it before the hub. Its Close ends only what was begun with it, and closes neither the hub nor the hub's broker. Once the hub is
// closed, its methods return broker.ErrClosed. Source may be called more than once: each result is independent of the others.
func (h *Hub) Source() *relay.Broker {
	s := &relay.Source{Broker: h.broker, Done: h.ctx.Done()}
	for _, n := range h.namespaces {
		one := relay.Namespace{Settings: n.Namespace.Namespace}
		for _, p := range n.partitions {
			one.Partitions = append(one.Partitions, p)
		}
		s.Namespaces = append(s.Namespaces, one)
	}
	return relay.New(s)
}

// Follow implements relay.Partition.
func (p *partition) Follow(f *relay.Follower) push.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers.Add(f)
	return push.Position{Epoch: p.epoch, Offset: p.applied.Load()}
}

// Unfollow implements relay.Partition.
func (p *partition) Unfollow(f *relay.Follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers.Remove(f)
}

// Want implements relay.Partition.
func (p *partition) Want(ctx context.Context, name string) error { return p.attachment.Want(ctx, name) }

// Unwant implements relay.Partition.
func (p *partition) Unwant(name string) { p.attachment.Unwant(name) }

// Publish implements relay.Partition.
func (p *partition) Publish(ctx context.Context, name string, pub push.Publication, o broker.PublishOptions) (push.Position, error) {
	at, err := p.store(ctx, name, pub, o)
	if err != nil {
		_ = p.hub.publishError(&p.namespace.counts, name, err)
	}
	return at, err
}

// reachTimeout is how long a read of a log waits for the partition to reach the broker's head. The partition does not get there in time if the hub is far
// behind, or if the newest message at the broker is one that is never delivered. Then the broker is asked.
const reachTimeout = 200 * time.Millisecond

// Read implements relay.Partition.
func (p *partition) Read(ctx context.Context, name string, at push.Position) (relay.Content, bool) {
	if t := p.topic(name); !p.reach(ctx, at) || p.isCalled() && (t == nil || !t.isLoaded()) {
		return relay.Content{}, false
	}
	for {
		t, err := p.hold(ctx, name)
		if err != nil {
			return relay.Content{}, false
		}
		found, isChanging := t.content(at.Epoch)
		t.release()
		if !isChanging {
			return found, found.History.Epoch != ""
		}
	}
}

// reach waits until everything up to a position is in the topics. It reports false if that takes longer than reachTimeout. If a method of a follower is
// running, reach does not wait, because that method may be waiting for the caller of reach.
func (p *partition) reach(ctx context.Context, at push.Position) bool {
	isThere := func() bool { return p.epoch != at.Epoch || p.applied.Load() >= at.Offset }
	p.mu.Lock()
	isNow := isThere()
	p.mu.Unlock()
	if isNow || p.isCalled() {
		return isNow
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	return p.await(ctx, isThere) == nil
}

// isCalled reports whether a method of a follower is running.
func (p *partition) isCalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.followers.IsCalled()
}

// isLoaded reports whether the topic's log is whole.
func (t *topic) isLoaded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loading == nil
}

// content returns what the broker would return of the channel in an epoch. It is empty if the log has not all of that. isChanging says that the topic has
// to be acquired again, because it has left the partition, or is being loaded again.
func (t *topic) content(epoch string) (found relay.Content, isChanging bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.loading != nil && t.loading.err != nil:
		return found, false
	case t.loading != nil, t.ended.Load() != nil:
		return found, true
	}
	now := time.Now().UnixMilli()
	t.log.Expire(now)
	at, oldest := t.positionLocked(nil), t.oldestLocked()
	if at.Epoch != epoch || t.isShortLocked(oldest, now) {
		return found, false
	}
	found.History = broker.History{Epoch: epoch, Floor: oldest, Head: at.Offset}
	if t.log.Mode() == push.Stream {
		found.Entries = t.log.Since(oldest, -1)
	} else {
		found.Entries = slices.Collect(t.log.Entries())
	}
	return found, false
}
