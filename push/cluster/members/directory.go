package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push/cluster"
)

const (
	// beat is how often a node announces itself.
	beat = time.Second
	// callTimeout bounds one call to a broker or a registry. It is so short that a second attempt is made before a lease expires.
	callTimeout = 2 * time.Second
)

var (
	// ErrClosed says that the [Directory] is closed.
	ErrClosed = errors.New("members: closed")
	// ErrFixed says that an update changes what a node cannot change while it runs.
	ErrFixed = errors.New("members: the id, cluster, role and addresses of a node cannot change")
)

// Options are the settings of a [Directory]. For every field zero is the default; nil is all defaults.
type Options struct {
	// Logger gets what is wrong, once until it is over: announcements that fail, entries that are no members, two nodes with one ID. Nil discards.
	Logger *slog.Logger
}

// Directory has the members of a cluster, and announces this node to the others. All methods may be called concurrently.
type Directory struct {
	source Source
	logger *slog.Logger
	ready  chan struct{} // closed when the source has reported for the first time

	self   atomic.Pointer[cluster.Member] // as this node describes itself; what it points to never changes
	urgent chan struct{}                  // holds an element if the announcer must not wait for the next beat
	view   atomic.Pointer[view]           // stored under mu
	failed atomic.Pointer[error]          // the outcome of the last announcement; nil before the first

	mu       sync.Mutex // guards what follows
	found    Found      // by the source
	problems problemLog

	stop    context.CancelFunc // ends the goroutines
	running sync.WaitGroup     // the goroutines
	closed  chan struct{}      // closed by Close
	closing sync.Once
}

// view is a set, and a channel that is closed when there is a newer one.
type view struct {
	set     *cluster.Set
	changed chan struct{}
}

// Join announces this node and begins to watch the members of its cluster. It does not wait for the source, which may be away: until the source has
// reported, the set is this node alone, see [Directory.Ready]. The error wraps [cluster.ErrMember]. The caller must close the Directory.
func Join(self *cluster.Member, source Source, o *Options) (*Directory, error) {
	if err := self.Check(); err != nil {
		return nil, err
	}
	d := &Directory{source: source, ready: make(chan struct{}), urgent: make(chan struct{}, 1), closed: make(chan struct{})}
	if o != nil {
		d.logger = o.Logger
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	d.self.Store(clone(self))
	set, _ := combine(self, &Found{})
	d.view.Store(&view{set: set, changed: make(chan struct{})})
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.running.Go(func() { d.announce(ctx) })
	d.running.Go(func() { d.watch(ctx) })
	return d, nil
}

func clone(m *cluster.Member) *cluster.Member {
	out := *m
	out.Labels = maps.Clone(m.Labels)
	return &out
}

// Set returns the members. After Close it returns the last set.
func (d *Directory) Set() *cluster.Set { return d.view.Load().set }

// Ready returns a channel that is closed when the source has reported for the first time. Until then the set is this node alone.
func (d *Directory) Ready() <-chan struct{} { return d.ready }

// Err returns why the last announcement of this node failed; nil if it did not.
func (d *Directory) Err() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Watch calls update with the set, and again after every change, until ctx is done or the Directory is closed. It returns the error of ctx, or
// [ErrClosed]. Calls come one at a time; of changes during a call only the last is reported. Numbers of sessions change every second:
// [cluster.Set.SamePlaces] tells such changes from others.
func (d *Directory) Watch(ctx context.Context, update func(*cluster.Set)) error {
	for {
		v := d.view.Load()
		update(v.set)
		select {
		case <-v.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closed:
			return ErrClosed
		}
	}
}

// Update changes what this node says of itself: labels, weight, sessions, capacity, version, and whether it is draining. The function gets a copy of
// the last values; it may be called again if another Update comes between. The set is made anew, so a caller that counts sessions should do this once a
// second, not for each. The set of this node has the change at once. Others are told at once of all but sessions and capacity, and of these with the
// next announcement. If there is an error, nothing has changed: it is [ErrFixed], [ErrClosed], or wraps [cluster.ErrMember].
func (d *Directory) Update(change func(*cluster.Member)) error {
	select {
	case <-d.closed:
		return ErrClosed
	default:
	}
	before, after, err := d.change(change)
	if err != nil {
		return err
	}
	if !sameButLoad(before, after) {
		select {
		case d.urgent <- struct{}{}:
		default:
		}
	}
	d.refresh()
	return nil
}

// change replaces what this node says of itself, and returns the values before and after.
func (d *Directory) change(change func(*cluster.Member)) (before, after *cluster.Member, err error) {
	for {
		before = d.self.Load()
		changed := clone(before)
		change(changed)
		if err := changed.Check(); err != nil {
			return nil, nil, err
		}
		if changed.ID != before.ID || changed.Cluster != before.Cluster || changed.Role != before.Role ||
			changed.Public != before.Public || changed.Link != before.Link {
			return nil, nil, ErrFixed
		}
		after = clone(changed) // the function may have kept the labels
		if d.self.CompareAndSwap(before, after) {
			return before, after, nil
		}
	}
}

// sameButLoad reports whether two descriptions of a node differ in the load at most.
func sameButLoad(a, b *cluster.Member) bool {
	x := *a
	x.Sessions, x.Capacity = b.Sessions, b.Capacity
	return x.Equal(b)
}

// Close withdraws this node, so that others know at once that it has left, and ends the goroutines and calls of Watch. ctx bounds the call to the
// source. An error means that others may count the node as a member until its last announcement has expired: four seconds later with [Leases].
// Closing again returns nil.
func (d *Directory) Close(ctx context.Context) error {
	var err error
	d.closing.Do(func() {
		close(d.closed)
		d.stop()
		d.running.Wait()
		if err = d.source.Withdraw(ctx); err != nil {
			err = fmt.Errorf("members: withdraw: %w", err)
		}
	})
	return err
}

// announce is the goroutine that announces this node, until ctx is done.
func (d *Directory) announce(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	failed := false
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := d.source.Announce(call, d.self.Load())
		cancel()
		if ctx.Err() != nil {
			return
		}
		d.failed.Store(&err)
		switch {
		case err != nil && !failed:
			d.logger.Warn("members: other nodes are not heard now: the source does not answer", "error", err)
		case err == nil && failed:
			d.logger.Info("members: other nodes are heard again: the source answers again")
		}
		failed = err != nil
		select {
		case <-ticker.C:
		case <-d.urgent:
		case <-ctx.Done():
			return
		}
	}
}

// watch is the goroutine that watches the source, until ctx is done.
func (d *Directory) watch(ctx context.Context) {
	var once sync.Once
	err := d.source.Watch(ctx, d.self.Load().Cluster, func(found Found) {
		d.mu.Lock()
		d.found = found
		d.mu.Unlock()
		d.refresh()
		once.Do(func() { close(d.ready) })
	})
	if ctx.Err() == nil {
		d.logger.Error("members: the set stays as it is: the source has ended", "error", err)
	}
}

// refresh makes the set anew.
func (d *Directory) refresh() {
	d.mu.Lock()
	set, wrong := combine(d.self.Load(), &d.found)
	if old := d.view.Load(); !old.set.Equal(set) {
		d.view.Store(&view{set: set, changed: make(chan struct{})})
		close(old.changed)
	}
	names := d.problems.fresh(time.Now(), wrong)
	d.mu.Unlock()
	for _, name := range names {
		d.logger.Warn("members: bad entry", "entry", name, "error", wrong[name])
	}
}

// combine returns the set of this node and of the members that a source has, and what is wrong with these, by a name for the log.
func combine(self *cluster.Member, found *Found) (*cluster.Set, map[string]error) {
	problems := maps.Clone(found.Problems)
	if problems == nil {
		problems = make(map[string]error)
	}
	list := append(make([]cluster.Member, 0, 1+len(found.Members)), *self)
	for i := range found.Members {
		m := &found.Members[i]
		switch {
		case m.Cluster != self.Cluster:
		case m.ID == self.ID && sameNode(m, self): // what this node has announced earlier
		case m.ID == self.ID:
			problems["id "+m.ID] = fmt.Errorf("another node has the id of this one: it is at %q", cmp.Or(m.Link, m.Public))
		case m.Link != "" && m.Link == self.Link:
			problems["link "+m.Link] = fmt.Errorf("this node's link address is in the source under the id %q, not %q: give the node that id", m.ID, self.ID)
		default:
			list = append(list, *m)
		}
	}
	set, err := cluster.NewSet(self.Cluster, list)
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, err := range joined.Unwrap() {
			problems[err.Error()] = err
		}
	}
	return set, problems
}

// sameNode reports whether two members with one ID are the same node: whether they have an address in common, or both have none.
func sameNode(a, b *cluster.Member) bool {
	return cmp.Or(a.Link, a.Public) == cmp.Or(b.Link, b.Public) || a.Public != "" && a.Public == b.Public
}
