package reconnect

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/session"
)

// Pool keeps sessions alive. Make one with New. All methods may be called by any goroutine at any time, also by functions of the
// options and of handlers.
type Pool struct {
	// Set when made.
	client *session.Client
	o      Options
	done   chan struct{} // closed when the pool is closed and nothing of it is left

	view    atomic.Pointer[view] // replaced under mu; nil when something has changed since
	turns   atomic.Uint64        // for picking in turn
	pending atomic.Int64         // leases

	mu sync.Mutex
	// Guarded by mu.
	started   bool
	closed    bool
	addresses []string
	slots     []*slot            // those that are not leaving, by number; failed ones stay
	leaving   map[*slot]struct{} // those that end because of SetAddresses
	made      int                // slots so far
	live      int                // slots that are not finished, and goroutines and timers of sessions that drain
	links     map[*session.Session]*link
	changed   chan struct{} // closed and replaced with each change
	stats     Stats         // the counters
}

// New makes a pool whose sessions are those of client, which stays the caller's; client may be nil if o.DialSession is not. It does nothing
// yet: see [Pool.Start]. The error is [ErrOptions]. o is copied.
func New(client *session.Client, o *Options) (*Pool, error) {
	p := &Pool{
		client: client, o: o.withDefaults(), done: make(chan struct{}), changed: make(chan struct{}),
		leaving: make(map[*slot]struct{}), links: make(map[*session.Session]*link),
	}
	if client == nil && p.o.DialSession == nil {
		return nil, fmt.Errorf("%w: no client", ErrOptions)
	}
	if err := p.o.check(); err != nil {
		return nil, err
	}
	p.addresses = p.o.Addresses
	return p, nil
}

// Start begins to dial, and returns at once. Starting again, and after Close, does nothing.
func (p *Pool) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed {
		return
	}
	p.started = true
	_ = p.spreadLocked()
}

// SetAddresses changes where the sessions go, in one step. As many stay where they are as an even spread allows, and new ones are dialed
// at once. Those that leave are not picked any more, and are [Draining]: when their leases are released, Drain of the
// handler is called, which should say goodbye with [session.Session.End]; without Drain the pool ends them. What is not gone after
// DrainTimeout is aborted, and so are the oldest of them when there are more than the pool has slots. Slots that gave up are replaced,
// also when the addresses are the same. Errors: [ErrOptions] without an address, which changes nothing, and [ErrClosed].
func (p *Pool) SetAddresses(addresses []string) error {
	addresses = distinct(addresses)
	if len(addresses) == 0 {
		return fmt.Errorf("%w: no address", ErrOptions)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.addresses = addresses
	var aborts []func()
	if p.started {
		aborts = p.spreadLocked()
	}
	p.mu.Unlock()
	for _, abort := range aborts {
		abort()
	}
	return nil
}

// spreadLocked makes the slots that the addresses want and ends the others. It returns what has to be done without the mutex.
func (p *Pool) spreadLocked() (aborts []func()) {
	p.slots = slices.DeleteFunc(p.slots, func(sl *slot) bool { return sl.state == Failed })
	n := p.o.Sessions
	if n == 0 {
		n = len(p.addresses)
	}
	at := make([]string, len(p.slots))
	for i, sl := range p.slots {
		at[i] = sl.address
	}
	wanted := slices.Clone(p.addresses)
	if n%len(wanted) != 0 { // who has one more than others is not the same for all pools
		rand.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
	}
	leaves, dials := spread(at, wanted, n)
	var stay []*slot
	for i, sl := range p.slots {
		if !leaves[i] {
			stay = append(stay, sl)
			continue
		}
		p.leaving[sl] = struct{}{}
		_ = sl.shutLocked(ErrRetired, true)
	}
	p.slots = stay
	taken, nth := make(map[place]bool, len(stay)), make(map[string]int, len(wanted))
	for _, sl := range stay {
		taken[sl.home] = true
	}
	for _, address := range dials {
		nth[address] = p.addLocked(address, nth[address], taken)
	}
	p.changedLocked()
	return p.crowdLocked(n)
}

// crowdLocked returns what aborts the oldest sessions that drain, if they are more than n.
func (p *Pool) crowdLocked(n int) (aborts []func()) {
	var draining []*slot
	for sl := range p.leaving {
		if sl.state == Draining {
			draining = append(draining, sl)
		}
	}
	slices.SortFunc(draining, func(a, b *slot) int { return a.id - b.id })
	for _, sl := range draining[:max(len(draining)-n, 0)] {
		if abort := sl.shutLocked(ErrRetired, false); abort != nil {
			aborts = append(aborts, abort)
		}
	}
	return aborts
}

// addLocked makes a slot and starts it. Its number at the address is the first from nth on that is free; the next one is returned.
func (p *Pool) addLocked(address string, nth int, taken map[place]bool) int {
	for taken[place{address, nth}] {
		nth++
	}
	at := place{address, nth}
	sl := &slot{p: p, id: p.made, home: at, hash: at.hash(), address: address}
	sl.back = backoff{base: p.o.Base, most: p.o.Cap}
	p.made++
	p.live++
	p.slots = append(p.slots, sl)
	if sl.sayLocked(Event{State: Connecting}) {
		go sl.tell()
	}
	return nth + 1
}

// changedLocked is called after each change: what is picked from is made anew when somebody asks, and who waits looks again.
func (p *Pool) changedLocked() {
	p.view.Store(nil)
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns what is picked from.
func (p *Pool) current() *view {
	if v := p.view.Load(); v != nil {
		return v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.currentLocked()
}

func (p *Pool) currentLocked() *view {
	if v := p.view.Load(); v != nil {
		return v
	}
	v := new(view)
	for _, sl := range p.slots {
		if sl.turn == turnSession && sl.closing == nil && !sl.link.over {
			v.links = append(v.links, sl.link)
		}
	}
	p.view.Store(v)
	return v
}

// lessLocked is called when something of the pool has ended.
func (p *Pool) lessLocked() {
	p.live--
	p.overLocked()
}

// overLocked says that nothing is left, if that is so for good.
func (p *Pool) overLocked() {
	if p.closed && p.live == 0 {
		close(p.done)
		p.live = -1 // not twice
	}
}

// jitter calls then with a time up to most, also when Jitter of the options panics or ends the goroutine.
func (p *Pool) jitter(most time.Duration, then func(time.Duration)) {
	if p.o.Jitter == nil {
		then(time.Duration(rand.Uint64N(uint64(most) + 1))) //nolint:gosec // not negative, and no secret
		return
	}
	d, returned := most, false
	defer func() {
		if !returned {
			_ = p.panicked("jitter", recover())
		}
		then(min(max(d, 0), most))
	}()
	d = p.o.Jitter(most)
	returned = true
}

// Wait waits until n sessions are open at once, or as many as there are slots if n is more than that, or not positive. It starts the
// pool if nobody has. Errors: the context's, with the last causes; [ErrGaveUp], with causes, when too many slots have given up; and
// [ErrClosed].
func (p *Pool) Wait(ctx context.Context, n int) error {
	p.Start()
	for {
		p.mu.Lock()
		want := n
		if n <= 0 || n > len(p.slots) {
			want = len(p.slots)
		}
		changed, open := p.changed, len(p.currentLocked().links)
		var err error
		switch {
		case p.closed:
			err = ErrClosed
		case open < want && len(p.slots)-p.failedLocked() < want:
			err = p.gaveUpLocked()
		}
		p.mu.Unlock()
		if err != nil || open >= want {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			err = fmt.Errorf("reconnect: wait: %w", ctx.Err())
			return withCauses(err, p.causesLocked(func(sl *slot) bool { return sl.state != Open }))
		}
	}
}

// failedLocked returns how many slots have given up.
func (p *Pool) failedLocked() (n int) {
	for _, sl := range p.slots {
		if sl.state == Failed {
			n++
		}
	}
	return n
}

func (p *Pool) gaveUpLocked() error {
	return withCauses(ErrGaveUp, p.causesLocked(func(sl *slot) bool { return sl.state == Failed }))
}

// Sessions visits the sessions that are open when it begins, by slot. A session may end while it is being visited.
func (p *Pool) Sessions() iter.Seq[*session.Session] {
	return func(yield func(*session.Session) bool) {
		for _, l := range p.current().links {
			if !yield(l.s) {
				return
			}
		}
	}
}

// Len returns the number of sessions that may be picked now.
func (p *Pool) Len() int { return len(p.current().links) }

// Stats returns the pool's counters, and its slots by state at one instant. It may be called after Close.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stats
	count := func(sl *slot) {
		switch sl.state {
		case Connecting:
			st.Connecting++
		case Open:
			st.Open++
		case BackingOff:
			st.BackingOff++
		case Draining:
			st.Draining++
		case Failed:
			st.Failed++
		}
	}
	for _, sl := range p.slots {
		count(sl)
	}
	for sl := range p.leaving {
		count(sl)
	}
	st.Pending = int(p.pending.Load())
	return st
}
