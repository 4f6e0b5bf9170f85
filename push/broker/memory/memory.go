// Package memory is a broker that keeps everything in the memory of its process: for tests, and for namespaces that need not
// outlive their only node. What it keeps is lost when the process ends, and the epoch tells: each life of a partition has one of
// its own.
//
// A partition is one lock, one sequence of offsets and one [channel.Log] for each of its channels. Publishing is: take the lock,
// wait until every follower has room, give the offset, append to the channel's log, hand the message to the followers. A follower
// that does not keep up therefore holds publishers back and loses nothing; one that stays behind for longer than
// [Options.PublishWait] makes them fail with [broker.ErrBusy] before anything was stored.
//
// Each attachment and each listener for control messages owns one goroutine, which ends with it; there are no others, and no
// timers. What is too old is evicted when its channel is used, and by each publish from a few other channels of its partition in
// turn: a partition to which nothing is published gives no memory back, but shows nothing that is too old either.
package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Options are the settings of a [Broker]. For every number and duration zero means the default and negative means off.
type Options struct {
	// Now is the clock that dates publications and by which retention, idempotency keys and leases age. It is called by many
	// goroutines at once. Default time.Now.
	Now func() time.Time
	// MaxPublication is the largest publication stored, in bytes as counted by push.Publication.Size. Default 1 MiB; off: no limit.
	MaxPublication int
	// Queue is how many messages may wait for one follower while it is busy with those before. Default 1024; off: 1.
	Queue int
	// QueueBytes is how many bytes may wait for one follower, give or take one message. Default 64 MiB; off: no limit.
	QueueBytes int64
	// PublishWait is how long Publish waits for slow followers, and Tell for slow listeners, before they answer ErrBusy.
	// Default 5 s; off: they do not wait.
	PublishWait time.Duration
	// IdempotencyKeys is how many idempotency keys a partition remembers. With one more the oldest is forgotten before its five minutes are
	// over. Default 1,048,576, which take about 150 MB; off: no limit.
	IdempotencyKeys int
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.MaxPublication == 0 {
		out.MaxPublication = 1 << 20
	}
	if out.Queue == 0 {
		out.Queue = 1024
	}
	if out.QueueBytes == 0 {
		out.QueueBytes = 64 << 20
	}
	if out.PublishWait == 0 {
		out.PublishWait = 5 * time.Second
	}
	if out.IdempotencyKeys == 0 {
		out.IdempotencyKeys = 1 << 20
	}
	out.Queue = max(out.Queue, 1)
	return out
}

// Broker is a [broker.Broker] in memory. All methods may be called concurrently; after Close they return [broker.ErrClosed].
type Broker struct {
	opts    Options // set at New
	control control
	leases  leases

	mu         sync.RWMutex
	namespaces map[string]*namespace // guarded by mu
	closed     bool                  // guarded by mu
	ended      chan struct{}         // closed when Close has waited for everything
}

// namespace is an open namespace. Its settings are guarded by the broker's mu, partitions is set when it is opened.
type namespace struct {
	settings   broker.Namespace
	partitions []*partition
}

// New returns an empty broker. A nil opts means the defaults. It has to be closed.
func New(opts *Options) *Broker {
	b := &Broker{
		opts:       opts.withDefaults(),
		namespaces: make(map[string]*namespace),
		ended:      make(chan struct{}),
	}
	b.control.listeners = make(map[*listener]struct{})
	b.leases.byKey = make(map[string]lease)
	return b
}

// Open makes a namespace usable. Opened again it takes over another History, which may evict at once; another Mode or number of
// Partitions is refused, and so is a durable namespace.
func (b *Broker) Open(ctx context.Context, ns broker.Namespace) error {
	if err := b.open(ctx, ns); err != nil {
		return fmt.Errorf("memory: open namespace %q: %w", ns.Name, err)
	}
	return nil
}

func (b *Broker) open(ctx context.Context, ns broker.Namespace) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ns.Durable:
		return errors.New("it is durable, and this broker keeps nothing when its process ends: set durable to false or use another broker")
	case ns.Partitions < 1:
		return fmt.Errorf("%d partitions, at least 1 is needed", ns.Partitions)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	n, found := b.namespaces[ns.Name]
	switch {
	case !found:
		n = &namespace{settings: ns}
		for range ns.Partitions {
			n.partitions = append(n.partitions, newPartition(&b.opts, ns))
		}
		b.namespaces[ns.Name] = n
	case n.settings.Mode != ns.Mode:
		return fmt.Errorf("it is open in mode %v, which cannot become %v", n.settings.Mode, ns.Mode)
	case n.settings.Partitions != ns.Partitions:
		return fmt.Errorf("it is open with %d partitions, which cannot become %d", n.settings.Partitions, ns.Partitions)
	case n.settings.History != ns.History:
		n.settings = ns
		for _, p := range n.partitions {
			p.retain(ns.History)
		}
	}
	return nil
}

// Publish stores p and hands it to the followers of its partition. It keeps p and all it refers to. It waits while a follower has
// no room, until ctx is done or for at most Options.PublishWait, and has stored nothing when it returns an error of any kind.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, opts broker.PublishOptions) (push.Position, error) {
	pos, err := b.publish(ctx, broker.Message{Channel: channel, Publication: p}, opts)
	if err != nil {
		return push.Position{}, fmt.Errorf("memory: publish to %q: %w", channel, err)
	}
	return pos, nil
}

func (b *Broker) publish(ctx context.Context, m broker.Message, opts broker.PublishOptions) (push.Position, error) {
	part, err := b.partitionOf(ctx, m.Channel)
	if err != nil {
		return push.Position{}, err
	}
	if most := b.opts.MaxPublication; most > 0 && m.Size() > most {
		return push.Position{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", broker.ErrTooLarge, m.Size(), most)
	}
	return part.publish(ctx, m, opts.IdempotencyKey)
}

// Attach begins to deliver a partition to f. Any number of followers may be attached to one partition; each is given the same
// sequence, and the slowest sets the pace of all.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	part, err := b.partition(ctx, p)
	if err == nil {
		var a *attachment
		if a, err = part.attach(f); err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("memory: attach: %w", err)
}

// Load visits what is kept of a channel, as it was at one moment: the publications that come meanwhile are not among them. No lock is
// held while visit runs. The floor of a channel of which nothing is known is the newest offset of any channel that was
// forgotten: it may have been this one.
func (b *Broker) Load(ctx context.Context, channel string, visit func(push.Publication) error) (broker.History, error) {
	part, err := b.partitionOf(ctx, channel)
	if err != nil {
		return broker.History{}, fmt.Errorf("memory: load %q: %w", channel, err)
	}
	entries, history, err := part.load(channel)
	for i := 0; i < len(entries) && err == nil; i++ {
		if err = ctx.Err(); err == nil {
			err = visit(entries[i].Publication)
		}
	}
	if err != nil {
		return broker.History{}, fmt.Errorf("memory: load %q: %w", channel, err)
	}
	return history, nil
}

// Head returns the partition's newest position; its offset is 0 before the first publication.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	part, err := b.partition(ctx, p)
	if err != nil {
		return push.Position{}, fmt.Errorf("memory: head: %w", err)
	}
	return part.position(), nil
}

// Close ends all attachments and listeners and waits until their goroutines have ended: what was queued for them is not delivered any
// more, what waits in Publish or Tell fails with [broker.ErrClosed]. Calling it again waits for the same. It must not be called from
// a follower or from a handler of control messages.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if !first {
		<-b.ended
		return nil
	}
	var wait []<-chan struct{}
	for _, n := range b.namespaces { // nobody opens another any more
		for _, p := range n.partitions {
			wait = append(wait, p.close()...)
		}
	}
	wait = append(wait, b.control.close()...)
	b.leases.close()
	for _, ended := range wait {
		<-ended
	}
	close(b.ended)
	return nil
}

// partitionOf finds the partition of a channel.
func (b *Broker) partitionOf(ctx context.Context, channel string) (*partition, error) {
	n, err := b.namespace(ctx, push.Namespace(channel))
	if err != nil {
		return nil, err
	}
	return n.partitions[broker.PartitionOf(channel, len(n.partitions)).Index], nil
}

func (b *Broker) partition(ctx context.Context, p broker.Partition) (*partition, error) {
	n, err := b.namespace(ctx, p.Namespace)
	if err != nil {
		return nil, err
	}
	if p.Index < 0 || p.Index >= len(n.partitions) {
		return nil, fmt.Errorf("namespace %q has no partition %d, only %d in all", p.Namespace, p.Index, len(n.partitions))
	}
	return n.partitions[p.Index], nil
}

func (b *Broker) namespace(ctx context.Context, name string) (*namespace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, broker.ErrClosed
	}
	n, ok := b.namespaces[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", broker.ErrUnknownNamespace, name)
	}
	return n, nil
}

// Stats says that the broker is there.
func (b *Broker) Stats() broker.Stats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return broker.Stats{Kind: "memory", Connected: !b.closed}
}
