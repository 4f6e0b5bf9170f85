package hub

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/relay"
)

// partition follows one partition of the broker and passes its messages to the topics.
type partition struct {
	hub        *Hub
	namespace  *namespace
	id         broker.Partition
	attachment broker.Attachment // set by attach

	applied atomic.Uint64 // everything up to this offset is in the topics that are loaded
	acked   atomic.Uint64 // the newest offset that the broker acknowledged to a publisher of this node

	mu        sync.Mutex // guards the following
	epoch     string
	topics    map[string]*topic
	waiting   chan struct{}   // closed when applied rises or the epoch changes; nil when no goroutine waits
	followers relay.Followers // of the hub's Source

	taken chan struct{} // receives when a batch takes the recent entries of the topic for which the follower waits

	// Owned by the follower's goroutine, for one call of Deliver.
	found   []*topic // by message; nil for channels without a topic
	changed []*topic // topics whose subscribers have to be served
}

func newPartition(h *Hub, n *namespace, id broker.Partition) *partition {
	return &partition{hub: h, namespace: n, id: id, topics: map[string]*topic{}, taken: make(chan struct{}, 1)}
}

func (p *partition) attach(ctx context.Context) error {
	// The lock holds up the first delivery until the start is stored.
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.hub.broker.Attach(ctx, p.id, p)
	if err != nil {
		return err
	}
	start := a.Start()
	p.attachment, p.epoch = a, start.Epoch
	p.applied.Store(start.Offset)
	return nil
}

// Deliver implements broker.Follower. It appends all messages before any subscriber is served, so that a burst leaves in few writes.
func (p *partition) Deliver(batch []broker.Message) {
	p.namespace.counts.Received.Add(uint64(len(batch)))
	p.mu.Lock()
	for i := range batch {
		p.found = append(p.found, p.topics[batch[i].Channel])
	}
	p.mu.Unlock()
	subscribers := 0
	for i, t := range p.found {
		if t == nil {
			continue
		}
		if n := t.arrive(&batch[i]); n > 0 {
			p.changed = append(p.changed, t)
			subscribers += n
		}
	}
	followers := p.apply(batch[len(batch)-1].Offset)
	p.hub.workers.serve(p.changed, subscribers)
	clear(p.found)
	clear(p.changed)
	p.found, p.changed = p.found[:0], p.changed[:0]
	if len(followers) > 0 {
		followers.Deliver(batch)
	}
}

// Gap implements broker.Follower.
func (p *partition) Gap(channel string, offset uint64) {
	p.hub.options.Logger.Warn("publications evicted before delivery",
		"namespace", p.id.Namespace, "partition", p.id.Index, "channel", channel, "offset", offset)
	if t := p.topic(channel); t != nil { // none has an empty name
		t.gap(offset)
	}
	var followers relay.List
	if channel == "" {
		for _, t := range p.list() {
			t.gap(offset)
		}
		followers = p.apply(offset)
	} else {
		p.mu.Lock()
		followers = p.followers.Gap(channel, offset, p.applied.Load())
		p.mu.Unlock()
	}
	followers.Each(func(f broker.Follower) { f.Gap(channel, offset) })
}

// Advance implements broker.Follower.
func (p *partition) Advance(offset uint64) {
	p.apply(offset).Each(func(f broker.Follower) { f.Advance(offset) })
}

// Reset implements broker.Follower. All subscriptions end, and their clients subscribe again.
func (p *partition) Reset(start push.Position) {
	p.hub.options.Logger.Warn("partition reset to a new epoch", "namespace", p.id.Namespace, "partition", p.id.Index, "epoch", start.Epoch)
	p.mu.Lock()
	p.epoch = start.Epoch
	topics := p.topics
	p.topics = map[string]*topic{}
	p.acked.Store(0)
	p.applied.Store(start.Offset)
	p.wakeLocked()
	followers := p.followers.Reset()
	p.mu.Unlock()
	for _, t := range topics {
		t.end(push.UnsubscribeInsufficientState)
		t.unwant()
	}
	followers.Each(func(f broker.Follower) { f.Reset(start) })
}

// apply notes that everything up to offset is in the topics. It returns the followers that have to be told.
func (p *partition) apply(offset uint64) relay.List {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied.Store(offset)
	p.wakeLocked()
	return p.followers.At(offset)
}

func (p *partition) wakeLocked() {
	if p.waiting != nil {
		close(p.waiting)
		p.waiting = nil
	}
}

// acknowledged stores a position that the broker acknowledged to a publisher of this node. It ignores a position of another epoch, whose offset
// says nothing about the present epoch, and which applied would never reach.
func (p *partition) acknowledged(at push.Position) {
	if p.acked.Load() >= at.Offset {
		return
	}
	p.mu.Lock()
	if p.epoch == at.Epoch {
		p.acked.Store(max(p.acked.Load(), at.Offset))
	}
	p.mu.Unlock()
}

// appliedIn returns the offset up to which everything is applied, or 0 if the partition has another epoch.
func (p *partition) appliedIn(epoch string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return 0
	}
	return p.applied.Load()
}

// catchUp waits until the topics hold every publication that the broker has acknowledged to publishers of this node. So a client that publishes
// and then reads finds its publication. It waits for Options.LoadTimeout at most.
func (p *partition) catchUp(ctx context.Context) error {
	target := p.acked.Load()
	if p.applied.Load() >= target {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.hub.options.LoadTimeout)
	defer cancel()
	err := p.await(ctx, func() bool { return p.applied.Load() >= target || p.acked.Load() < target })
	switch {
	case err == nil:
		return nil
	case p.hub.ctx.Err() != nil:
		return push.ErrInternal.WithMessage("the node is shutting down")
	default:
		return push.ErrInternal.WithMessage("the broker did not deliver the publication in time")
	}
}

// await waits until isDone returns true. It is called with the lock held, at first and whenever applied has risen or the epoch has changed. The error is
// that of ctx, or of the hub's context.
func (p *partition) await(ctx context.Context, isDone func() bool) error {
	for {
		p.mu.Lock()
		if isDone() {
			p.mu.Unlock()
			return nil
		}
		if p.waiting == nil {
			p.waiting = make(chan struct{})
		}
		wait := p.waiting
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.hub.ctx.Done():
			return p.hub.ctx.Err()
		}
	}
}

func (p *partition) topic(name string) *topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[name]
}

func (p *partition) list() []*topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*topic, 0, len(p.topics))
	for _, t := range p.topics {
		out = append(out, t)
	}
	return out
}

// acquire returns the topic of a channel, loaded, and adds a hold, which release gives up. Concurrent calls share one load. The topic has what catchUp
// waits for.
func (p *partition) acquire(ctx context.Context, name string) (*topic, error) {
	t, err := p.hold(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := p.catchUp(ctx); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// hold is acquire without catchUp.
func (p *partition) hold(ctx context.Context, name string) (*topic, error) {
	p.mu.Lock()
	if p.hub.ctx.Err() != nil {
		p.mu.Unlock()
		return nil, push.ErrInternal.WithMessage("the node is shutting down")
	}
	t := p.topics[name]
	if t == nil {
		t = newTopic(p, name)
		p.topics[name] = t
		p.hub.running.Go(t.load)
	}
	t.holds.Add(1)
	p.mu.Unlock()
	if err := t.wait(ctx); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// forget removes a topic from the partition.
func (p *partition) forget(t *topic) {
	p.mu.Lock()
	if p.topics[t.name] == t {
		delete(p.topics, t.name)
	}
	p.mu.Unlock()
	t.unwant()
}

// topics returns all topics that are loaded or being loaded, except that of the hub's own probe.
func (h *Hub) topics() []*topic {
	var out []*topic
	for _, n := range h.namespaces {
		if n.Name == probeNamespace {
			continue
		}
		for _, p := range n.partitions {
			out = append(out, p.list()...)
		}
	}
	return out
}
