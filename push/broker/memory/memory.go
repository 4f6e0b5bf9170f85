// Package memory is a broker that keeps everything in the memory of its process. It is for tests, and for namespaces that need not outlive their
// only node. When the process ends, all data is lost. Clients notice that, because every partition that is created has an epoch of its own.
//
// A partition is one lock, one sequence of offsets, and one [channel.Log] for each of its channels. Publishing takes the lock, waits until every
// follower has room, assigns the offset, appends to the channel's log, and queues the message for the followers. So a follower that does not
// keep up holds back publishers and loses nothing. If it stays behind for longer than [Options.PublishWait], publishers fail with
// [broker.ErrBusy] before anything is stored.
//
// Each attachment and each listener for control messages owns one goroutine, which ends with it. There are no other goroutines and no timers.
// Entries that are too old are evicted when their channel is used. Each publish also evicts from a few other channels of its partition in turn.
// So a partition without publications gives no memory back, but never shows entries that are too old.
package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Options are the settings of a [Broker]. For every number and duration zero means the default, and negative means off.
type Options struct {
	// Now is the clock for the times of publications and for the age of retention, idempotency keys and leases. Goroutines call it concurrently.
	// Default time.Now.
	Now func() time.Time
	// MaxPublication is the largest publication stored, in bytes as counted by push.Publication.Size. Default 1 MiB; off: no limit.
	MaxPublication int
	// Queue is how many messages may wait for one follower while the follower is busy with earlier ones. Default 1024; off: 1.
	Queue int
	// QueueBytes is how many bytes may wait for one follower, give or take one message. Default 64 MiB; off: no limit.
	QueueBytes int64
	// PublishWait is how long Publish waits for slow followers, and Tell for slow listeners, before they return ErrBusy. Default 5 s; off: they
	// do not wait.
	PublishWait time.Duration
	// IdempotencyKeys is how many idempotency keys a partition remembers. If another is added, the oldest is forgotten before its five minutes
	// are over. Default 1,048,576, which take about 150 MB; off: no limit.
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
	opts    Options // immutable
	control control
	leases  leases

	partitions broker.Table[*partition]
	ended      chan struct{} // closed when Close has waited for everything
}

// New returns an empty broker. A nil opts means the defaults. The caller has to close it.
func New(opts *Options) *Broker {
	b := &Broker{
		opts:  opts.withDefaults(),
		ended: make(chan struct{}),
	}
	b.control.listeners = make(map[*listener]struct{})
	b.leases.byKey = make(map[string]lease)
	return b
}

// Open makes a namespace usable. If it is open already, another History is adopted, which may evict at once. Open refuses another Mode or number
// of Partitions, and a durable namespace.
func (b *Broker) Open(ctx context.Context, ns broker.Namespace) error {
	if err := b.open(ctx, ns); err != nil {
		return fmt.Errorf("memory: open namespace %q: %w", ns.Name, err)
	}
	return nil
}

func (b *Broker) open(ctx context.Context, ns broker.Namespace) error {
	if err := b.partitions.Check(ctx, ns); err != nil {
		return err
	}
	if ns.Durable {
		return errors.New("the memory broker cannot store a durable namespace: set durable to false, or use another broker")
	}
	var all []*partition
	for range ns.Partitions {
		all = append(all, newPartition(&b.opts, ns))
	}
	return b.partitions.Open(ns, all, (*partition).retain)
}

// Publish stores p and queues it for the followers of its partition. The broker keeps p and everything it refers to. If a follower has no room,
// Publish waits until ctx is done, or for at most Options.PublishWait. If it returns an error of any kind, nothing was stored.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, opts broker.PublishOptions) (push.Position, error) {
	pos, err := b.publish(ctx, broker.Message{Channel: channel, Publication: p}, opts)
	if err != nil {
		return push.Position{}, fmt.Errorf("memory: publish to %q: %w", channel, err)
	}
	return pos, nil
}

func (b *Broker) publish(ctx context.Context, m broker.Message, opts broker.PublishOptions) (push.Position, error) {
	part, err := b.partitions.Of(ctx, m.Channel)
	if err != nil {
		return push.Position{}, err
	}
	if most := b.opts.MaxPublication; most > 0 && m.Size() > most {
		return push.Position{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", broker.ErrTooLarge, m.Size(), most)
	}
	return part.publish(ctx, m, opts.IdempotencyKey)
}

// Attach begins to deliver a partition to f. Any number of followers may be attached to one partition. Each gets the same sequence, and the
// slowest of them limits the rate of all.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	part, err := b.partitions.At(ctx, p)
	if err == nil {
		var a *attachment
		if a, err = part.attach(f); err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("memory: attach: %w", err)
}

// Load visits the stored publications of a channel as they were at one moment, without the publications that are accepted meanwhile. No lock is
// held while visit runs. If nothing is stored of a channel, its floor is the highest floor of all channels that the partition has dropped: the
// channel may have been one of them.
func (b *Broker) Load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	part, err := b.partitions.Of(ctx, channel)
	if err != nil {
		return broker.History{}, fmt.Errorf("memory: load %q: %w", channel, err)
	}
	entries, history, err := part.load(channel, o.RowsOnly)
	for i := 0; i < len(entries) && err == nil; i++ {
		if err = ctx.Err(); err == nil {
			err = visit(broker.Message{Channel: channel, Publication: entries[i].Publication})
		}
	}
	if err != nil {
		return broker.History{}, fmt.Errorf("memory: load %q: %w", channel, err)
	}
	return history, nil
}

// Head returns the partition's newest position; its offset is 0 before the first publication.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	part, err := b.partitions.At(ctx, p)
	if err != nil {
		return push.Position{}, fmt.Errorf("memory: head: %w", err)
	}
	return part.position(), nil
}

// Close ends all attachments and listeners, and waits until their goroutines have ended. Queued messages are dropped, and waiting calls of
// Publish and Tell fail. Another call waits for the same. A follower, or a handler of control messages, must not call it.
func (b *Broker) Close() error {
	if !b.partitions.Close() {
		<-b.ended
		return nil
	}
	var wait []<-chan struct{}
	for _, p := range b.partitions.All() { // no partition is added any more
		wait = append(wait, p.close()...)
	}
	wait = append(wait, b.control.close()...)
	b.leases.close()
	for _, ended := range wait {
		<-ended
	}
	close(b.ended)
	return nil
}

// Stats returns the state of the broker, which is connected until Close.
func (b *Broker) Stats() broker.Stats {
	return broker.Stats{Kind: "memory", Connected: !b.partitions.IsClosed()}
}
