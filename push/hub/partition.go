package hub

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// partition follows one partition of the broker and hands what it delivers to the topics.
type partition struct {
	hub        *Hub
	namespace  *namespace
	id         broker.Partition
	attachment broker.Attachment // set by attach

	applied atomic.Uint64 // everything up to here is in the topics that are loaded
	acked   atomic.Uint64 // the newest offset this node was promised

	mu      sync.Mutex
	epoch   string
	topics  map[string]*topic
	waiting chan struct{} // closed when applied rises; nil when nobody waits

	taken chan struct{} // the recent entries of the topic for which the follower waits

	// owned by the follower's goroutine, for the present batch
	found  []*topic // by message
	kicked []*topic // that have something for their subscribers
}

func newPartition(h *Hub, n *namespace, id broker.Partition) *partition {
	return &partition{hub: h, namespace: n, id: id, topics: map[string]*topic{}, taken: make(chan struct{}, 1)}
}

func (p *partition) attach(ctx context.Context) error {
	// The lock keeps the first deliveries out until the start is noted.
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

// Deliver implements broker.Follower. All of the batch is applied before anything is served, so that a burst leaves in few writes.
func (p *partition) Deliver(batch []broker.Message) {
	p.namespace.counts.received.Add(uint64(len(batch)))
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
			p.kicked = append(p.kicked, t)
			subscribers += n
		}
	}
	p.apply(batch[len(batch)-1].Offset)
	p.hub.workers.kick(p.kicked, subscribers)
	clear(p.found)
	clear(p.kicked)
	p.found, p.kicked = p.found[:0], p.kicked[:0]
}

// Gap implements broker.Follower.
func (p *partition) Gap(offset uint64) {
	p.hub.options.Logger.Warn("publications were evicted before they were delivered",
		"namespace", p.id.Namespace, "partition", p.id.Index, "offset", offset)
	for _, t := range p.list() {
		t.gap(offset)
	}
	p.apply(offset)
}

// Reset implements broker.Follower: all subscriptions end, and their clients subscribe anew.
func (p *partition) Reset(start push.Position) {
	p.hub.options.Logger.Warn("a partition begins a new life", "namespace", p.id.Namespace, "partition", p.id.Index, "epoch", start.Epoch)
	p.mu.Lock()
	p.epoch = start.Epoch
	topics := p.topics
	p.topics = map[string]*topic{}
	p.acked.Store(0)
	p.applied.Store(start.Offset)
	p.wakeLocked()
	p.mu.Unlock()
	for _, t := range topics {
		t.end(push.UnsubscribeInsufficientState)
	}
}

func (p *partition) apply(offset uint64) {
	p.mu.Lock()
	p.applied.Store(offset)
	p.wakeLocked()
	p.mu.Unlock()
}

func (p *partition) wakeLocked() {
	if p.waiting != nil {
		close(p.waiting)
		p.waiting = nil
	}
}

// acknowledged notes what was promised. A position of another life is passed over: of one that ended nothing can be waited for, and
// the number says nothing about the present one.
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

// appliedIn returns how far the partition has come, if its life is the one named.
func (p *partition) appliedIn(epoch string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return 0
	}
	return p.applied.Load()
}

// catchUp waits until the topics hold everything this node was promised: who publishes and then reads finds what it published. It
// waits no longer than loading may take.
func (p *partition) catchUp(ctx context.Context) error {
	target := p.acked.Load()
	if p.applied.Load() >= target {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.hub.options.LoadTimeout)
	defer cancel()
	for p.applied.Load() < target {
		p.mu.Lock()
		if p.applied.Load() >= target || p.acked.Load() < target {
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
			return push.ErrInternal.WithMessage("the broker did not deliver in time")
		case <-p.hub.ctx.Done():
			return push.ErrInternal.WithMessage("the node is shutting down")
		}
	}
	return nil
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

// acquire returns the topic of a channel, loaded, and holds it: release lets go. It is loaded once however many ask for it.
func (p *partition) acquire(ctx context.Context, name string) (*topic, error) {
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
	if err := p.catchUp(ctx); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// forget takes a topic out of the partition.
func (p *partition) forget(t *topic) {
	p.mu.Lock()
	if p.topics[t.name] == t {
		delete(p.topics, t.name)
	}
	p.mu.Unlock()
}

// topics returns all that are loaded or being loaded, except the hub's own probe.
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
