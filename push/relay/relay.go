package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

var _ broker.Broker = (*Broker)(nil)

// Partition is a partition that a process follows, with the logs of its channels. All methods are called concurrently.
type Partition interface {
	// Follow adds a follower to the partition's Followers, and returns the partition's position. Both happen under one lock.
	Follow(f *Follower) push.Position
	// Unfollow removes a follower.
	Unfollow(f *Follower)
	// Want and Unwant subscribe the partition itself to a channel, and end that: see broker.Attachment.
	Want(ctx context.Context, channel string) error
	Unwant(channel string)
	// Publish stores a publication at the broker, whose errors it returns as they are.
	Publish(ctx context.Context, channel string, p push.Publication, o broker.PublishOptions) (push.Position, error)
	// Read returns what is kept of a channel, once the partition has reached a position. It reports false if the broker has to be asked: the partition
	// does not get there in time, or does not have everything that the broker keeps. If a method of a follower is running, Read does not wait for the
	// partition, whose goroutine may be its caller.
	Read(ctx context.Context, channel string, at push.Position) (Content, bool)
}

// Content is what a log keeps of a channel.
type Content struct {
	Entries []*channel.Entry // in offset order, with removals; the slice belongs to the caller of Read
	History broker.History
}

// Namespace is a namespace with its partitions.
type Namespace struct {
	Settings   broker.Namespace
	Partitions []Partition // as many as Settings.Partitions
}

// Source is what a [Broker] serves.
type Source struct {
	// Broker is where the publications of the partitions come from.
	Broker broker.Broker
	// Namespaces are the namespaces of the Broker that are followed.
	Namespaces []Namespace
	// Done is closed when the partitions are not followed any more. Then every method that returns an error returns broker.ErrClosed.
	Done <-chan struct{}
}

// headTimeout bounds a request for the head of a partition.
const headTimeout = 10 * time.Second

// Broker serves partitions that are followed already. All methods may be called concurrently.
//
// A follower that blocks holds up its partition, for all that follow it and for the logs. The followers of push/link never block. While a
// method of a follower is running, loads do not wait for its partition.
type Broker struct {
	source   Source
	settings map[string]broker.Namespace
	table    broker.Table[*served]
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	closing  sync.Once

	mu          sync.Mutex // guards the following
	closed      bool
	attachments map[*attachment]struct{}
	listeners   map[*func()]struct{} // what ends them
	running     sync.WaitGroup       // reads of heads, and calls of Listen; added to while the lock is held
}

// served is a partition with the reads of its head.
type served struct {
	Partition
	id      broker.Partition
	mode    push.Mode
	reading sync.Mutex // held while the head is read

	mu   sync.Mutex
	next *headRead // guarded by mu: a read that has not begun; nil if none is due
}

// headRead is a request for the head of a partition. Everything but done is set before done is closed.
type headRead struct {
	done chan struct{}
	at   push.Position
	err  error
}

// New returns a Broker, which its caller closes before the partitions and the source's Broker.
func New(s *Source) *Broker {
	b := &Broker{
		source: *s, settings: make(map[string]broker.Namespace),
		attachments: make(map[*attachment]struct{}), listeners: make(map[*func()]struct{}),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	for _, n := range s.Namespaces {
		b.settings[n.Settings.Name] = n.Settings
		var all []*served
		for i, p := range n.Partitions {
			all = append(all, &served{Partition: p, id: broker.Partition{Namespace: n.Settings.Name, Index: i}, mode: n.Settings.Mode})
		}
		_ = b.table.Open(n.Settings, all, nil) // cannot fail: it is new, and not open yet
	}
	return b
}

// check returns the error of a call that has to fail: that of the context, or ErrClosed.
func (b *Broker) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isOver() {
		return broker.ErrClosed
	}
	return nil
}

func (b *Broker) isOver() bool {
	select {
	case <-b.source.Done:
		return true
	default:
		return b.table.IsClosed()
	}
}

// of returns the partition of a channel.
func (b *Broker) of(ctx context.Context, channel string) (*served, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	return b.table.Of(ctx, channel)
}

// Open does nothing if the namespace is served with the same settings. It returns ErrUnknownNamespace if the namespace is not served, and another
// error if the mode, the number of partitions or durable differ. Another History is no error, and changes nothing: the logs keep what their own
// History says. So nodes can get a new History one after the other.
func (b *Broker) Open(ctx context.Context, ns broker.Namespace) error {
	err := b.check(ctx)
	if err == nil {
		err = b.table.Check(ctx, ns)
	}
	if _, ok := b.settings[ns.Name]; err == nil && !ok {
		err = fmt.Errorf("%w here", broker.ErrUnknownNamespace)
	}
	if err != nil {
		return fmt.Errorf("relay: open namespace %q: %w", ns.Name, err)
	}
	return nil
}

// Publish implements broker.Broker. Its errors are those of the source's Broker.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	part, err := b.of(ctx, channel)
	if err != nil {
		return push.Position{}, fmt.Errorf("relay: publish to %q: %w", channel, err)
	}
	return part.Publish(ctx, channel, p, o)
}

// Attach implements broker.Broker. If the source's Broker cannot be asked for its head, the follower may get publications that were accepted before.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	part, err := b.table.At(ctx, p)
	if err == nil {
		err = b.check(ctx)
	}
	var head push.Position
	if err == nil {
		if head, err = b.headOf(ctx, part); b.check(ctx) == nil {
			err = nil
		}
	}
	a := &attachment{broker: b, partition: part, follower: Follower{to: f}, wanted: make(map[string]int)}
	if err == nil && !b.add(func() { b.attachments[a] = struct{}{} }) {
		err = broker.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("relay: attach: %w", err)
	}
	a.begin(head)
	return a, nil
}

// add calls f with the lock held, unless the broker is closed. It reports whether it did.
func (b *Broker) add(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		f()
	}
	return !b.closed
}

// Load implements broker.Broker. It is answered from the channel's log, or by the source's Broker if the log is not enough. No lock is held while visit
// runs.
func (b *Broker) Load(
	ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error,
) (broker.History, error) {
	h, err := b.load(ctx, channel, o, visit)
	if err != nil {
		return broker.History{}, fmt.Errorf("relay: load %q: %w", channel, err)
	}
	return h, nil
}

func (b *Broker) load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	p, err := b.of(ctx, channel)
	if err != nil {
		return broker.History{}, err
	}
	at, err := b.headOf(ctx, p)
	if err != nil {
		return broker.History{}, err
	}
	found, ok := p.Read(ctx, channel, at)
	if !ok {
		if err := b.check(ctx); err != nil {
			return broker.History{}, err
		}
		return b.source.Broker.Load(ctx, channel, o, visit)
	}
	isTable := p.mode != push.Stream
	for _, e := range found.Entries {
		if err := b.check(ctx); err != nil {
			return broker.History{}, err
		}
		if isTable && o.RowsOnly && e.Removed() {
			continue
		}
		m := broker.Message{Channel: channel, Publication: e.Publication}
		if isTable {
			m.Retag = e.Retag
		}
		if err := visit(m); err != nil {
			return broker.History{}, err
		}
	}
	if isTable && o.RowsOnly {
		found.History.Floor = found.History.Head
	}
	return found.History, nil
}

// headOf returns a head that the partition had after headOf was called.
func (b *Broker) headOf(ctx context.Context, p *served) (push.Position, error) {
	p.mu.Lock()
	r := p.next
	if r == nil {
		r = &headRead{done: make(chan struct{})}
		if !b.add(func() { b.running.Go(func() { b.readHead(p, r) }) }) {
			p.mu.Unlock()
			return push.Position{}, broker.ErrClosed
		}
		p.next = r
	}
	p.mu.Unlock()
	select {
	case <-r.done:
		return r.at, r.err
	case <-ctx.Done():
		return push.Position{}, ctx.Err()
	}
}

// readHead reads the head of a partition for all that wait for it now. One goroutine at a time reads, and at most one
// other waits.
func (b *Broker) readHead(p *served, r *headRead) {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	p.next = nil // a call from now on needs a newer head
	p.mu.Unlock()
	defer close(r.done)
	ctx, cancel := context.WithTimeout(b.ctx, headTimeout)
	defer cancel()
	if r.at, r.err = b.source.Broker.Head(ctx, p.id); r.err != nil && b.isOver() {
		r.err = broker.ErrClosed
	}
}

// Head implements broker.Broker. It asks the source's Broker.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	err := b.check(ctx)
	if err == nil {
		_, err = b.table.At(ctx, p)
	}
	if err != nil {
		return push.Position{}, fmt.Errorf("relay: head: %w", err)
	}
	return b.source.Broker.Head(ctx, p)
}

// Listen implements broker.Broker. The source's Broker calls handle.
func (b *Broker) Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error) {
	if err := b.check(ctx); err != nil {
		return nil, fmt.Errorf("relay: listen: %w", err)
	}
	if !b.add(func() { b.running.Add(1) }) {
		return nil, fmt.Errorf("relay: listen: %w", broker.ErrClosed)
	}
	defer b.running.Done() // Close waits, and then ends the listener
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	end, err := b.source.Broker.Listen(within, node, handle)
	if err != nil {
		if b.isOver() && !errors.Is(err, broker.ErrClosed) {
			err = broker.ErrClosed
		}
		return nil, err
	}
	b.mu.Lock()
	b.listeners[&end] = struct{}{}
	b.mu.Unlock()
	return func() {
		end()
		b.mu.Lock()
		delete(b.listeners, &end)
		b.mu.Unlock()
	}, nil
}

// Tell implements broker.Broker, as do the following: they ask the source's Broker.
func (b *Broker) Tell(ctx context.Context, node string, payload []byte) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	return b.source.Broker.Tell(ctx, node, payload)
}

// PutLease implements broker.Broker.
func (b *Broker) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	return b.source.Broker.PutLease(ctx, l, ttl)
}

// DropLease implements broker.Broker.
func (b *Broker) DropLease(ctx context.Context, key string) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	return b.source.Broker.DropLease(ctx, key)
}

// ListLeases implements broker.Broker.
func (b *Broker) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	return b.source.Broker.ListLeases(ctx, prefix)
}

// Stats returns the statistics of the source's Broker.
func (b *Broker) Stats() broker.Stats { return b.source.Broker.Stats() }

// Close ends the attachments and listeners of this Broker, and waits for their methods and handlers. It closes neither the partitions nor the source's
// Broker. A follower or handler must not call it. Afterwards Close returns nil, and every other method that returns an error returns ErrClosed.
func (b *Broker) Close() error {
	b.closing.Do(func() {
		b.table.Close()
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		b.cancel()
		b.running.Wait()
		b.mu.Lock()
		attachments, listeners := slices.Collect(maps.Keys(b.attachments)), slices.Collect(maps.Keys(b.listeners))
		b.mu.Unlock()
		for _, a := range attachments {
			a.Detach()
		}
		for _, end := range listeners {
			(*end)()
		}
	})
	return nil
}
