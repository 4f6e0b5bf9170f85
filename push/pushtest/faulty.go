package pushtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Operation names an operation that [Faulty] can make fail.
type Operation string

// The operations.
const (
	OpPublish Operation = "publish"
	OpAttach  Operation = "attach"
	OpLoad    Operation = "load"
	OpHead    Operation = "head"
	OpTell    Operation = "tell"
	OpLease   Operation = "lease" // putting, dropping and listing
)

// Faulty is a broker with faults on demand, for tests of code that uses brokers. It passes all operations to another broker, except for the
// requested faults. All methods may be called concurrently, but not from followers.
type Faulty struct {
	broker.Broker // all operations without faults

	mu         sync.Mutex
	failing    map[Operation]error
	blocked    map[Operation]chan struct{} // closed when the operation may continue
	partitions map[broker.Partition]*faultyPartition
	partsOf    map[string]int // number of partitions, by namespace
}

// faultyPartition holds the faults of a partition. It is guarded by Faulty.mu.
type faultyPartition struct {
	epoch     string        // replaces the real one; empty for the real one
	lives     int           // how often the partition was reset
	held      chan struct{} // nil, or closed when delivery continues
	followers []*faultyFollower
}

// NewFaulty returns a broker that behaves as b until a fault is requested. Its Close closes b.
func NewFaulty(b broker.Broker) *Faulty {
	return &Faulty{
		Broker:     b,
		failing:    make(map[Operation]error),
		blocked:    make(map[Operation]chan struct{}),
		partitions: make(map[broker.Partition]*faultyPartition),
		partsOf:    make(map[string]int),
	}
}

// Fail makes an operation fail with err before it has any effect, until it is called with nil.
func (f *Faulty) Fail(op Operation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing[op] = err
}

// Block makes an operation wait, until release or Close is called or its context is done. release may be called again.
func (f *Faulty) Block(op Operation) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blocked[op] == nil {
		f.blocked[op] = make(chan struct{})
	}
	mine := f.blocked[op]
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.blocked[op] == mine {
			close(mine)
			delete(f.blocked, op)
		}
	}
}

// Hold delays the deliveries of a partition until release or Close is called. release may be called again.
func (f *Faulty) Hold(p broker.Partition) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	part := f.partLocked(p)
	if part.held == nil {
		part.held = make(chan struct{})
	}
	mine := part.held
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if part.held == mine {
			part.resume()
		}
	}
}

// Evict replaces the next n messages of a partition by a gap for its followers. The messages can still be loaded.
func (f *Faulty) Evict(p broker.Partition, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, follower := range f.partLocked(p).followers {
		follower.evict += n
	}
}

// Reset changes the epoch of a partition, as a broker does that can no longer vouch for its data. The followers are reset, and from then on all
// operations return the new epoch. The stored data stays. Reset returns when all followers have been reset.
func (f *Faulty) Reset(p broker.Partition) {
	f.mu.Lock()
	part := f.partLocked(p)
	part.lives++
	part.epoch = fmt.Sprintf("life-%d-of-%s-%d", part.lives+1, p.Namespace, p.Index)
	epoch, followers := part.epoch, slices.Clone(part.followers)
	f.mu.Unlock()
	for _, follower := range followers {
		follower.reset(epoch)
	}
}

// enter is called at the beginning of each operation.
func (f *Faulty) enter(ctx context.Context, op Operation) error {
	f.mu.Lock()
	err, blocked := f.failing[op], f.blocked[op]
	f.mu.Unlock()
	if err != nil || blocked == nil {
		return err
	}
	select {
	case <-blocked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Faulty) partLocked(p broker.Partition) *faultyPartition {
	part := f.partitions[p]
	if part == nil {
		part = &faultyPartition{}
		f.partitions[p] = part
	}
	return part
}

// epoch returns the epoch to report for a partition, given the real one.
func (f *Faulty) epoch(p broker.Partition, epoch string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if part := f.partitions[p]; part != nil && part.epoch != "" && epoch != "" {
		return part.epoch
	}
	return epoch
}

// of returns the partition of a channel.
func (f *Faulty) of(channel string) broker.Partition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return broker.PartitionOf(channel, f.partsOf[push.Namespace(channel)])
}

// Open implements broker.Broker.
func (f *Faulty) Open(ctx context.Context, ns broker.Namespace) error {
	err := f.Broker.Open(ctx, ns)
	if err == nil {
		f.mu.Lock()
		f.partsOf[ns.Name] = ns.Partitions
		f.mu.Unlock()
	}
	return err
}

// Publish implements broker.Broker.
func (f *Faulty) Publish(ctx context.Context, channel string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	if err := f.enter(ctx, OpPublish); err != nil {
		return push.Position{}, err
	}
	pos, err := f.Broker.Publish(ctx, channel, p, o)
	pos.Epoch = f.epoch(f.of(channel), pos.Epoch)
	return pos, err
}

// Load implements broker.Broker.
func (f *Faulty) Load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	if err := f.enter(ctx, OpLoad); err != nil {
		return broker.History{}, err
	}
	h, err := f.Broker.Load(ctx, channel, o, visit)
	h.Epoch = f.epoch(f.of(channel), h.Epoch)
	return h, err
}

// Head implements broker.Broker.
func (f *Faulty) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	if err := f.enter(ctx, OpHead); err != nil {
		return push.Position{}, err
	}
	pos, err := f.Broker.Head(ctx, p)
	pos.Epoch = f.epoch(p, pos.Epoch)
	return pos, err
}

// Tell implements broker.Control.
func (f *Faulty) Tell(ctx context.Context, node string, payload []byte) error {
	if err := f.enter(ctx, OpTell); err != nil {
		return err
	}
	return f.Broker.Tell(ctx, node, payload)
}

// PutLease implements broker.Leases.
func (f *Faulty) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	if err := f.enter(ctx, OpLease); err != nil {
		return err
	}
	return f.Broker.PutLease(ctx, l, ttl)
}

// DropLease implements broker.Leases.
func (f *Faulty) DropLease(ctx context.Context, key string) error {
	if err := f.enter(ctx, OpLease); err != nil {
		return err
	}
	return f.Broker.DropLease(ctx, key)
}

// ListLeases implements broker.Leases.
func (f *Faulty) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	if err := f.enter(ctx, OpLease); err != nil {
		return nil, err
	}
	return f.Broker.ListLeases(ctx, prefix)
}

// Close releases everything that is blocked or held, and closes the broker.
func (f *Faulty) Close() error {
	f.mu.Lock()
	for op, blocked := range f.blocked {
		close(blocked)
		delete(f.blocked, op)
	}
	for _, part := range f.partitions {
		part.resume()
	}
	f.mu.Unlock()
	return f.Broker.Close()
}

// resume lets held deliveries continue.
func (p *faultyPartition) resume() {
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}
