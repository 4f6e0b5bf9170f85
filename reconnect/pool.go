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

// Pool keeps sessions alive: if one ends, the pool dials it again. Pools are made by New. All methods are safe for concurrent use, also by
// functions of the options and of handlers.
type Pool struct {
	// Set by New.
	client *session.Client
	o      Options
	done   chan struct{} // closed when the pool is closed and live has become 0

	view    atomic.Pointer[view] // replaced under mu; nil after a change, until it is needed
	picks   atomic.Uint64        // the number of picks, for picking in turn
	pending atomic.Int64         // leases

	mu sync.Mutex
	// Guarded by mu.
	started   bool
	closed    bool
	addresses []string
	slots     []*slot            // slots that are not leaving, by number; failed slots stay
	leaving   map[*slot]struct{} // slots that end because of SetAddresses
	made      int                // how many slots have been made; the number of the next
	live      int                // slots that have not finished, and goroutines and timers of draining sessions
	links     map[*session.Session]*link
	changed   chan struct{} // closed and replaced with each change
	stats     Stats         // the counters
}

// New makes a pool with sessions of client. The client remains the caller's, and may be nil if o.DialSession is set. The pool dials nothing
// before [Pool.Start]. Invalid options give [ErrOptions]. New copies o.
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

// Start begins to dial, and returns at once. A second Start, and Start after Close, does nothing.
func (p *Pool) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed {
		return
	}
	p.started = true
	_ = p.spreadLocked()
}

// SetAddresses changes the addresses of the pool in one step. As many sessions stay where they are as an even spread allows, and new ones are
// dialed at once.
//
// Sessions that leave are not picked any more and are [Draining]. When their leases are released, Drain of the handler is called, which should
// end the session with [session.Session.End]; without Drain the pool ends it. Sessions that have not ended after DrainTimeout are aborted. So
// are the oldest draining sessions, if more sessions drain than the pool has slots. Slots that gave up are replaced, also if the addresses are
// the same. Errors: [ErrOptions] without an address, which changes nothing, and [ErrClosed].
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

// spreadLocked makes slots for the addresses and ends superfluous ones. It returns functions that the caller has to call without the mutex.
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
	if n%len(wanted) != 0 { // so that different pools have the extra sessions at different addresses
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
		_ = sl.closeLocked(ErrRetired, true)
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
	return p.evictLocked(n)
}

// evictLocked returns functions that abort the oldest draining sessions beyond n. The caller calls them without the mutex.
func (p *Pool) evictLocked(n int) (aborts []func()) {
	var draining []*slot
	for sl := range p.leaving {
		if sl.state == Draining {
			draining = append(draining, sl)
		}
	}
	slices.SortFunc(draining, func(a, b *slot) int { return a.id - b.id })
	for _, sl := range draining[:max(len(draining)-n, 0)] {
		if abort := sl.closeLocked(ErrRetired, false); abort != nil {
			aborts = append(aborts, abort)
		}
	}
	return aborts
}

// addLocked makes a slot and starts it. Its number at the address is the first free one from nth on; addLocked returns the number after it.
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
	if sl.postLocked(Event{State: Connecting}) {
		go sl.notify()
	}
	return nth + 1
}

// changedLocked is called after each change. It drops the view, which is made again on demand, and wakes the callers of Wait.
func (p *Pool) changedLocked() {
	p.view.Store(nil)
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns the view of the open sessions.
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
		if sl.owner == ownerSession && sl.closing == nil && !sl.link.over {
			v.links = append(v.links, sl.link)
		}
	}
	p.view.Store(v)
	return v
}

// releaseLocked is called when a slot, goroutine or timer that live counts has ended.
func (p *Pool) releaseLocked() {
	p.live--
	p.checkDoneLocked()
}

// checkDoneLocked closes done if the pool is closed and live is 0.
func (p *Pool) checkDoneLocked() {
	if p.closed && p.live == 0 {
		close(p.done)
		p.live = -1 // so that done is not closed twice
	}
}

// jitter calls then with a wait of at most most. It does so even if Jitter of the options panics or ends the goroutine.
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

// Wait waits until n sessions are open at once. If n is larger than the number of slots, or not positive, Wait waits for all slots. It starts
// the pool if it has not been started. Errors: the context's, with the last causes; [ErrGaveUp], with causes, if too many slots have given up;
// and [ErrClosed].
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

// failedLocked returns the number of slots that have given up.
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

// Sessions iterates over the sessions that are open when the iteration begins, by slot. A session may end during the iteration.
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

// Stats returns the pool's counters, and the numbers of its slots by state at one instant. It may be called after Close.
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
