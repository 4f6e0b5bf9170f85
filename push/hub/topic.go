package hub

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

// recentEntries is by how many entries the fan-out may be behind a topic. A follower that is further ahead waits: a round never blocks, so
// that is short, and no subscriber loses anything because of how the hub schedules its work.
const recentEntries = 128

// spare is what the log of a stream keeps for some seconds, whatever the namespace says about history: a session whose lock was taken when a
// round came along has to find everything in the log, also when whoever holds the lock lost the processor meanwhile. What History shows is
// not more for it, and the janitor takes it back (slim).
var spare = channel.Spare{Few: 2 * recentEntries, Entries: 64 * recentEntries, Bytes: 16 << 20}

// topic is a channel that somebody uses: its log and its subscribers. There are many of them: their size is measured by BenchmarkIdle.
type topic struct {
	part *partition
	name string

	holds  atomic.Int32                     // subscriptions, and whoever looks at the topic just now
	life   atomic.Uint32                    // which log it is by now; changes under mu
	used   atomic.Int64                     // when the last hold was given up, in Unix milliseconds
	newest atomic.Uint64                    // offset of the newest entry; changes under mu
	ended  atomic.Pointer[push.Unsubscribe] // set when the channel's life is over

	mu      sync.Mutex   // guards what follows
	loading *loading     // nil once the log is whole
	log     *channel.Log // nil before the first load
	subs    []*Subscription
	recent  []*channel.Entry // the newest entries, which no round has taken yet
	slimAt  uint64           // the head when slim was last called
	deltas  *deltas          // nil while no subscription takes differences

	// unrecorded says that something is new which is not among the recent entries, and that no round has taken notice of it yet.
	unrecorded bool
	awaited    bool // the follower waits until recent is taken

	fanout fanout // guarded by workers.mu
	number uint32 // set at the beginning
}

func newTopic(p *partition, name string) *topic {
	return &topic{part: p, name: name, loading: newLoading(), number: p.hub.loaded.Add(1)}
}

// release lets go of a topic. Only one that holds something stays, for subscribers that come back: a client may ask for ever new names.
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

// arrive appends a live message and returns how many subscribers have to be served with it, 0 when there are none, or when that was
// returned before and no round has begun since. It waits while the fan-out is too far behind.
func (t *topic) arrive(m *broker.Message) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.recent) >= recentEntries {
		t.awaited = true
		t.mu.Unlock()
		t.kick() // the round that this asks for takes what is recent
		<-t.part.taken
		t.mu.Lock()
	}
	if t.loading != nil {
		t.loading.hold(m)
		return 0
	}
	e := t.log.Append(m.Publication)
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

// kick has the topic's subscribers served with what is new.
func (t *topic) kick() { t.part.hub.workers.kick([]*topic{t}, t.subscribers()) }

// joinLocked adds a subscription.
func (t *topic) joinLocked(sub *Subscription) {
	sub.slot = int32(len(t.subs)) //nolint:gosec // far fewer
	t.subs = append(t.subs, sub)
	if sub.delta != push.NoDelta {
		t.countDeltasLocked(+1)
	}
	t.part.namespace.counts.subscriptions.Add(1)
}

// deltas is what a topic has for subscriptions that take differences.
type deltas struct {
	subs   int
	recent []*channel.Change // of the recent entries, as far as they came since there are deltas
}

// countDeltasLocked notes that one more or less subscription takes differences.
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

// leave removes a subscription. The last one takes its place.
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
	t.part.namespace.counts.subscriptions.Add(-1)
	switch t.subs = t.subs[:last]; {
	case last == 0:
		t.subs, t.unrecorded = nil, false
		t.forgetRecentLocked()
	case last >= 64 && last < cap(t.subs)/4:
		t.subs = append(make([]*Subscription, 0, 2*last), t.subs...)
	}
}

// gap goes on after publications were evicted unseen; a table has to be loaded again. What is being loaded just now may have been read
// before they were published: it is read again.
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
	t.kick()
}

// keptRecent is how many entries the memory for recent ones has room for while there are none.
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
		t.part.taken <- struct{}{} // for which there is room: the follower waits for one topic at a time
	}
}

// end ends all subscriptions, each when its session comes to it.
func (t *topic) end(u push.Unsubscribe) {
	t.ended.CompareAndSwap(nil, &u)
	t.kick()
}

// position returns where the channel is now. It must be called with the lock held, on a loaded topic.
func (t *topic) positionLocked(v *channel.View) push.Position {
	// What this partition has applied is applied here too, so a quiet channel moves along with it.
	t.log.Advance(t.part.appliedIn(t.log.Epoch()))
	return push.Position{Epoch: v.Epoch(t.log.Epoch()), Offset: t.log.Head()}
}

// usable reports why a topic that was acquired cannot be used after all. It must be called with the lock held.
func (t *topic) usableLocked() error {
	switch {
	case t.loading != nil && t.loading.err != nil:
		return t.loading.err
	case t.ended.Load() != nil:
		return push.ErrInternal.WithMessage("the channel's life ended, try again")
	case t.loading != nil:
		return push.ErrInternal.WithMessage("the channel is being loaded again, try again")
	}
	return nil
}

// expire forgets what is too old.
func (t *topic) expire(now int64) {
	t.mu.Lock()
	if t.loading == nil {
		t.log.Expire(now)
	}
	t.mu.Unlock()
}

// slim forgets what a stream keeps beyond its namespace's history, except for what has come since slim was last called.
func (t *topic) slim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading == nil {
		t.log.RaiseFloor(min(t.log.Beyond(t.part.namespace.History), t.slimAt))
		t.slimAt = t.log.Head()
	}
}

// bytes returns what the log's entries count for.
func (t *topic) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		return 0
	}
	return t.log.Bytes()
}

// subscriptions returns all there are.
func (t *topic) subscriptions() []*Subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.subs)
}

// subscribers returns how many subscriptions there are.
func (t *topic) subscribers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.subs)
}

// spawn runs f as work of the hub, unless the hub is closing.
func (h *Hub) spawn(p *partition, f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.running.Go(f)
	return true
}
