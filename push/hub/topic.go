package hub

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

// recentEntries is how many entries of a topic may wait for a fan-out batch. If there are more, the follower waits. Making a batch never blocks,
// so the wait is short, and no subscriber loses anything because of how the hub schedules its work.
const recentEntries = 128

// allowance is what the log of a stream keeps for some seconds beyond the namespace's history. If a session's lock is taken when a batch comes to
// it, the holder of the lock reads the log later, and may be without a processor meanwhile. It has to find everything in the log
// then. History does not show these entries, and the janitor removes them (slim).
var allowance = channel.Allowance{MinEntries: 2 * recentEntries, MaxEntries: 64 * recentEntries, MaxBytes: 16 << 20}

// topic is a channel in use on this node: its log and its subscriptions. There are many topics, so size matters; BenchmarkIdle measures it.
type topic struct {
	part *partition
	name string

	holds      atomic.Int32                     // subscriptions, and requests that use the topic now
	generation atomic.Uint32                    // of the log: it grows when the log is loaded again; changes under mu
	used       atomic.Int64                     // when a hold was last released, in Unix milliseconds
	newest     atomic.Uint64                    // offset of the newest entry; changes under mu
	ended      atomic.Pointer[push.Unsubscribe] // set when all subscriptions are to end: the epoch ended, or loading failed
	wanted     atomic.Bool                      // the broker was told that the channel is wanted

	mu      sync.Mutex   // guards the fields up to awaited
	loading *loading     // nil once the log is whole
	log     *channel.Log // nil before the first load
	subs    []*Subscription
	recent  []*channel.Entry // the newest entries, which no batch has taken yet
	slimAt  uint64           // the head when slim was last called
	deltas  *deltas          // nil while no subscription takes differences
	shrunk  *shrunk          // nil unless the log has forgotten entries for want of memory

	// unrecorded says that the log has something new that is not among the recent entries, and that no batch has seen this flag yet.
	unrecorded bool
	awaited    bool // the follower waits until recent is taken

	fanout fanoutState // guarded by workers.mu
	number uint32      // tells the hub's topics apart; never changes
}

func newTopic(p *partition, name string) *topic {
	return &topic{part: p, name: name, loading: newLoading(), number: p.hub.loaded.Add(1)}
}

// want tells the broker, before the channel is loaded, that this node wants its publications.
func (t *topic) want(ctx context.Context) error {
	if err := t.part.attachment.Want(ctx, t.name); err != nil {
		return err
	}
	t.wanted.Store(true)
	if t.ended.Load() != nil { // it left the partition meanwhile
		t.unwant()
	}
	return nil
}

// unwant tells the broker that the channel is no longer wanted. It is called when the topic has left the partition.
func (t *topic) unwant() {
	if t.wanted.CompareAndSwap(true, false) {
		t.part.attachment.Unwant(t.name)
	}
}

// release gives up a hold on the topic. If it was the last and the log is empty, the topic is dropped at once, because a client may ask for any
// number of new names. A topic with entries stays for a while, for subscribers that come back.
func (t *topic) release() {
	t.used.Store(time.Now().UnixMilli())
	if t.holds.Add(-1) == 0 && t.isEmpty() {
		t.part.drop(t)
	}
}

func (t *topic) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loading == nil && t.log.Len() == 0
}

// arrive appends a live message and returns how many subscribers the caller has to have served. That is 0 if there are none, or if an earlier
// call has returned them and no batch has taken the entries since. arrive waits while the fan-out is too far behind.
func (t *topic) arrive(m *broker.Message) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.recent) >= recentEntries {
		t.awaited = true
		t.mu.Unlock()
		t.serve() // a batch takes the recent entries
		<-t.part.taken
		t.mu.Lock()
	}
	if t.loading != nil {
		t.loading.hold(m)
		return 0
	}
	e := t.log.AppendRetagged(m.Publication, m.Retag)
	if e == nil {
		return 0
	}
	t.newest.Store(e.Offset)
	if len(t.subs) == 0 {
		return 0
	}
	t.recent = append(t.recent, e)
	if t.deltas != nil {
		t.deltas.recent = append(t.deltas.recent, t.log.Change(e))
	}
	if len(t.recent) > 1 {
		return 0
	}
	return len(t.subs)
}

// serve has the topic's subscribers served with everything new.
func (t *topic) serve() { t.part.hub.workers.serve([]*topic{t}, t.subscribers()) }

// joinLocked adds a subscription.
func (t *topic) joinLocked(sub *Subscription) {
	sub.slot = int32(len(t.subs)) //nolint:gosec // far fewer
	t.subs = append(t.subs, sub)
	if sub.delta != push.NoDelta {
		t.countDeltasLocked(+1)
	}
	t.part.namespace.counts.Subscriptions.Add(1)
}

// deltas is what a topic has for subscriptions that take differences.
type deltas struct {
	subs   int
	recent []*channel.Change // by recent entry; nil for entries that are older than the deltas
}

// countDeltasLocked adds by, +1 or −1, to the number of subscriptions that take differences.
func (t *topic) countDeltasLocked(by int) {
	if t.deltas == nil {
		t.deltas = &deltas{recent: make([]*channel.Change, len(t.recent))}
		t.keepChangesLocked()
	}
	if t.deltas.subs += by; t.deltas.subs == 0 {
		t.deltas = nil
		t.keepChangesLocked()
	}
}

func (t *topic) keepChangesLocked() {
	if t.log != nil {
		t.log.KeepChanges(t.deltas != nil)
	}
}

// leave removes a subscription from the topic. The last subscription of the list takes its slot.
func (t *topic) leave(sub *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.subs) - 1
	moved := t.subs[last]
	t.subs[sub.slot], moved.slot = moved, sub.slot
	t.subs[last] = nil
	if sub.delta != push.NoDelta {
		t.countDeltasLocked(-1)
	}
	t.part.namespace.counts.Subscriptions.Add(-1)
	switch t.subs = t.subs[:last]; {
	case last == 0:
		t.subs, t.unrecorded = nil, false
		t.forgetRecentLocked()
	case last >= 64 && last < cap(t.subs)/4:
		t.subs = append(make([]*Subscription, 0, 2*last), t.subs...)
	}
}

// gap notes that the broker evicted publications, up to an offset, before this node saw them. A table is loaded again. If the topic is being
// loaded, its messages may have been read before these publications were stored, so they are read again.
func (t *topic) gap(offset uint64) {
	t.mu.Lock()
	reload := false
	switch {
	case t.loading != nil:
		t.loading.missed, t.loading.held = true, nil
	case t.log.Gap(offset):
		t.forgetRecentLocked()
		t.unrecorded = len(t.subs) > 0
		t.newest.Store(t.log.Head())
	default:
		t.loading, reload = newLoading(), true
	}
	t.mu.Unlock()
	if reload && !t.part.hub.spawn(t.part, t.load) {
		t.fail(errClosing)
	}
	t.serve()
}

// keptRecent is the capacity of recent, in entries, that an empty list keeps at most.
const keptRecent = 4

func (t *topic) forgetRecentLocked() {
	clear(t.recent)
	if t.recent = t.recent[:0]; cap(t.recent) > keptRecent {
		t.recent = nil
	}
	if t.deltas != nil {
		t.deltas.recent = nil
	}
	if t.awaited {
		t.awaited = false
		t.part.taken <- struct{}{} // never blocks: the follower waits for one topic at a time
	}
}

// end marks the topic as ended and has its sessions served. Each session then ends its subscription.
func (t *topic) end(u push.Unsubscribe) {
	t.ended.CompareAndSwap(nil, &u)
	t.serve()
}

// positionLocked returns the channel's current position in a view. The topic must be loaded.
func (t *topic) positionLocked(v *channel.View) push.Position {
	// The partition has applied everything up to its offset, so a quiet channel has nothing before that offset left to get.
	t.log.Advance(t.part.appliedIn(t.log.Epoch()))
	return push.Position{Epoch: v.Epoch(t.log.Epoch()), Offset: t.log.Head()}
}

// usableLocked returns an error if a topic that was acquired cannot be used after all.
func (t *topic) usableLocked() error {
	switch {
	case t.loading != nil && t.loading.err != nil:
		return t.loading.err
	case t.ended.Load() != nil:
		return push.ErrInternal.WithMessage("the channel was reset to a new epoch, try again")
	case t.loading != nil:
		return push.ErrInternal.WithMessage("the channel is being reloaded, try again")
	}
	return nil
}

// expire forgets the entries that exceed the age of the namespace's history.
func (t *topic) expire(now int64) {
	t.mu.Lock()
	if t.loading == nil {
		t.log.Expire(now)
	}
	t.mu.Unlock()
}

// slim forgets the entries of a stream beyond its namespace's history, except entries appended since slim was last called.
func (t *topic) slim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading == nil {
		t.log.RaiseFloor(min(t.log.Beyond(t.part.namespace.History), t.slimAt))
		t.slimAt = t.log.Head()
	}
}

// bytes returns the size of the log as channel.Log.Bytes counts it; 0 while the topic is loading.
func (t *topic) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		return 0
	}
	return t.log.Bytes()
}

// subscriptions returns a copy of the list of subscriptions.
func (t *topic) subscriptions() []*Subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.subs)
}

// subscribers returns the number of subscriptions.
func (t *topic) subscribers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.subs)
}

// spawn runs f in a goroutine that Close waits for. If the hub is closing, it does not run f and reports false. The lock of p orders it before
// release, which takes that lock after the cancel and before the wait.
func (h *Hub) spawn(p *partition, f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.running.Go(f)
	return true
}
