package hub_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
)

// rig is a broker that can be made to misbehave in every way the seam allows: to hold deliveries back, to lose them and say so, to begin
// a new epoch, to load slowly or not at all. It stands on memory brokers, one for each epoch.
type rig struct {
	t       testing.TB
	options *memory.Options
	side    *memory.Broker // control messages and leases, which survive an epoch
	loads   atomic.Int64
	deaf    bool         // set before use: Listen fails
	door    sync.RWMutex // held for writing: followers are given nothing
	waiting atomic.Int32 // how many goroutines wait for door

	mu        sync.Mutex
	store     *memory.Broker
	opened    []broker.Namespace
	attached  map[*rigFollower]struct{}
	onLoad    func(ctx context.Context, name string) error       // before a channel is loaded
	loaded    func(name string, h broker.History) broker.History // changes what Load found
	onPublish error                                              // instead of publishing
	onLease   func(ctx context.Context, key string) error        // before a lease is put or dropped
	onHead    func(p push.Position) push.Position                // changes what Head found
	onWant    error                                              // of Want

	wantMu sync.Mutex
	wanted map[string]int // guarded by wantMu: how often channels are wanted
}

var _ broker.Broker = (*rig)(nil)

func newRig(t testing.TB, o *memory.Options) *rig {
	r := &rig{t: t, options: o, side: memory.New(o), store: memory.New(o), attached: map[*rigFollower]struct{}{}}
	t.Cleanup(func() {
		must(t, r.current().Close())
		must(t, r.side.Close())
	})
	return r
}

func (r *rig) current() *memory.Broker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store
}

// hold keeps deliveries back until the function returned is called.
func (r *rig) hold() (release func()) {
	r.door.Lock()
	release = sync.OnceFunc(r.door.Unlock)
	r.t.Cleanup(release)
	return release
}

// lose has each follower lose the next batch it is given, and hear of the gap.
func (r *rig) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.attached {
		f.losing.Store(true)
	}
}

// keep has no follower lose anything any more.
func (r *rig) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.attached {
		f.losing.Store(false)
	}
}

// renew replaces the store by an empty one: all partitions begin a new epoch.
func (r *rig) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.store
	r.store = memory.New(r.options)
	for _, ns := range r.opened {
		must(r.t, r.store.Open(context.Background(), ns))
	}
	for f := range r.attached {
		f.move(r.store)
	}
	must(r.t, old.Close())
}

// set changes one of the hooks.
func (r *rig) set(change func(r *rig)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *rig) Open(ctx context.Context, ns broker.Namespace) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = append(r.opened, ns)
	return r.store.Open(ctx, ns)
}

func (r *rig) Publish(ctx context.Context, name string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	r.mu.Lock()
	fail := r.onPublish
	r.mu.Unlock()
	if fail != nil {
		return push.Position{}, fail
	}
	return r.current().Publish(ctx, name, p, o)
}

func (r *rig) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &rigFollower{rig: r, id: p, follower: f}
	a, err := r.store.Attach(ctx, p, out)
	if err != nil {
		return nil, err
	}
	out.attachment, out.start = a, a.Start()
	r.attached[out] = struct{}{}
	return out, nil
}

func (r *rig) Load(ctx context.Context, name string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	r.loads.Add(1)
	r.mu.Lock()
	store, before, after := r.store, r.onLoad, r.loaded
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, name); err != nil {
			return broker.History{}, err
		}
		store = r.current()
	}
	h, err := store.Load(ctx, name, o, visit)
	if after != nil {
		h = after(name, h)
	}
	return h, err
}

func (r *rig) Stats() broker.Stats { return r.current().Stats() }

func (r *rig) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	r.mu.Lock()
	store, change := r.store, r.onHead
	r.mu.Unlock()
	at, err := store.Head(ctx, p)
	if change != nil {
		at = change(at)
	}
	return at, err
}

func (r *rig) Listen(ctx context.Context, node string, handle func([]byte)) (func(), error) {
	if r.deaf {
		return nil, broker.ErrClosed
	}
	return r.side.Listen(ctx, node, handle)
}

func (r *rig) Tell(ctx context.Context, node string, payload []byte) error {
	return r.side.Tell(ctx, node, payload)
}

func (r *rig) lease(ctx context.Context, key string) error {
	r.mu.Lock()
	hook := r.onLease
	r.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, key)
}

func (r *rig) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	if err := r.lease(ctx, l.Key); err != nil {
		return err
	}
	return r.side.PutLease(ctx, l, ttl)
}

func (r *rig) DropLease(ctx context.Context, key string) error {
	if err := r.lease(ctx, key); err != nil {
		return err
	}
	return r.side.DropLease(ctx, key)
}

func (r *rig) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	return r.side.ListLeases(ctx, prefix)
}

func (r *rig) Close() error { return r.current().Close() }

// rigFollower stands between a store and a follower, and survives the store.
type rigFollower struct {
	rig      *rig
	id       broker.Partition
	follower broker.Follower
	start    push.Position
	losing   atomic.Bool

	mu         sync.Mutex // held while the follower is called, and while it moves to another store
	attachment broker.Attachment
}

// Want and Unwant count what the hub wants, and Want fails if it is told to.
func (f *rigFollower) Want(ctx context.Context, channel string) error {
	f.rig.mu.Lock()
	err := f.rig.onWant
	f.rig.mu.Unlock()
	if err != nil {
		return err
	}
	f.rig.wantMu.Lock()
	defer f.rig.wantMu.Unlock()
	if f.rig.wanted == nil {
		f.rig.wanted = make(map[string]int)
	}
	f.rig.wanted[channel]++
	return nil
}

func (f *rigFollower) Unwant(channel string) {
	f.rig.wantMu.Lock()
	defer f.rig.wantMu.Unlock()
	if f.rig.wanted[channel]--; f.rig.wanted[channel] == 0 {
		delete(f.rig.wanted, channel)
	}
}

func (f *rigFollower) Deliver(batch []broker.Message) {
	f.rig.waiting.Add(1)
	f.rig.door.RLock()
	defer f.rig.door.RUnlock()
	f.rig.waiting.Add(-1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.losing.Swap(false) {
		f.follower.Gap("", batch[len(batch)-1].Offset)
		return
	}
	f.follower.Deliver(batch)
}

func (f *rigFollower) Gap(channel string, offset uint64) { f.follower.Gap(channel, offset) }

func (f *rigFollower) Advance(offset uint64) { f.follower.Advance(offset) }

func (f *rigFollower) Reset(start push.Position) { f.follower.Reset(start) }

func (f *rigFollower) Start() push.Position { return f.start }

func (f *rigFollower) Detach() {
	f.rig.mu.Lock()
	delete(f.rig.attached, f)
	f.rig.mu.Unlock()
	f.attachment.Detach()
}

// move attaches the follower to another store and tells it so before anything is delivered from there.
func (f *rigFollower) move(store *memory.Broker) {
	f.attachment.Detach()
	f.mu.Lock()
	defer f.mu.Unlock()
	a, err := store.Attach(context.Background(), f.id, f)
	must(f.rig.t, err)
	f.attachment = a
	f.follower.Reset(a.Start())
}
