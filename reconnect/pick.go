package reconnect

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
)

// Policy says which of the open sessions is picked.
type Policy uint8

// The policies.
const (
	// RoundRobin takes them in turn.
	RoundRobin Policy = iota + 1
	// LeastPending takes the one with the fewest leases, in turn among equals. Only Acquire counts.
	LeastPending
	// ByKey gives the same key the same slot, by rendezvous hashing (Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit
	// Rates", 1998): each slot has a weight for each key, and the heaviest that is open is it. So when a session is lost its keys
	// alone go elsewhere, each to its next best, and come back with it: who needs the messages of a key in order has to wait for
	// answers before it sends on. A slot is known by the address that it was made for and its number there. So pools that are made
	// with the same addresses, of which there are as many as Sessions or a fraction of it, agree, also those of other processes.
	// Peers who choose keys can choose the session. Choosing takes a time that grows with the number of sessions.
	ByKey
)

// view is what is picked from: the sessions that are open, by slot. It is not changed any more once others see it.
type view struct{ links []*link }

// score is the weight of l in the choice; the smallest is chosen.
func (l *link) score(policy Policy, key uint64) uint64 {
	switch policy {
	case LeastPending:
		return uint64(max(l.pending.Load(), 0)) //nolint:gosec // not negative
	case ByKey:
		return mix(l.slot.hash ^ key)
	default:
		return 0
	}
}

// choose returns the index of the best that is not dead, the first of the best from start on; or -1.
func (v *view) choose(policy Policy, key uint64, start int, dead []bool) int {
	best, least := -1, uint64(0)
	for n := range v.links {
		i := (start + n) % len(v.links)
		if dead != nil && dead[i] {
			continue
		}
		score := v.links[i].score(policy, key)
		if best < 0 || score < least {
			best, least = i, score
		}
		if score == 0 {
			break
		}
	}
	return best
}

// pick returns the link of an open session.
func (p *Pool) pick(key string) (*link, error) {
	v := p.current()
	if len(v.links) > 0 {
		hash := uint64(0)
		if p.o.Pick == ByKey {
			hash = hashOf(key)
		}
		start := int(p.turns.Add(1) % uint64(len(v.links))) //nolint:gosec // less than the length
		var dead []bool
		for range v.links {
			i := v.choose(p.o.Pick, hash, start, dead)
			if v.links[i].alive() {
				return v.links[i], nil
			}
			if dead == nil {
				dead = make([]bool, len(v.links))
			}
			dead[i] = true
		}
	}
	return nil, p.none()
}

// alive reports whether the session still takes messages. It may be ending, without the pool having heard of that: an empty frame
// is not written, but refused then.
func (l *link) alive() bool { return l.s.Write(nil) == nil }

// none is the error of who wants a session when there is none.
func (p *Pool) none() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case !p.started:
		return fmt.Errorf("%w: not started", ErrNone)
	case len(p.slots) == p.failedLocked():
		return fmt.Errorf("%w: %w", ErrNone, p.gaveUpLocked())
	}
	return withCauses(ErrNone, p.causesLocked(func(sl *slot) bool { return sl.state != Open }))
}

// causesMax is how many causes an error names.
const causesMax = 4

// causesLocked returns the last errors of slots of which f says so, a few of them.
func (p *Pool) causesLocked(f func(*slot) bool) error {
	var all []error
	for _, sl := range p.slots {
		if sl.cause != nil && f(sl) && len(all) < causesMax {
			all = append(all, fmt.Errorf("%s: %w", sl.address, sl.cause))
		}
	}
	return errors.Join(all...)
}

func withCauses(err, causes error) error {
	if causes == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, causes)
}

// Pick returns an open session, by the policy of the options; key matters for ByKey only. It never blocks. The session may end at any
// time, and its Send says so. Errors: [ErrNone] with the last causes, also [ErrGaveUp] if none will come any more, and [ErrClosed]
// after Close and Shutdown.
func (p *Pool) Pick(key string) (*session.Session, error) {
	l, err := p.pick(key)
	if err != nil {
		return nil, err
	}
	return l.s, nil
}

// Send sends a message on the session that Pick chooses. The error is that of Pick or of [session.Session.Send]. It is not tried again
// elsewhere: when a session ends while a message is being written nobody knows whether it has arrived. Like Send of a session it
// blocks only under the Wait policy of the client.
func (p *Pool) Send(key string, msg []byte) error {
	l, err := p.pick(key)
	if err != nil {
		return err
	}
	return l.s.Send(msg)
}

// Lease is a session that is in use: by a request that waits for its answer, say. It counts for LeastPending, and keeps a session that
// is draining from being ended. Its methods may be called by any goroutine.
type Lease struct {
	l    *link
	done atomic.Bool
}

// Acquire is Pick for who says when it is done: the lease has to be released, whatever becomes of the session.
func (p *Pool) Acquire(key string) (*Lease, error) {
	l, err := p.pick(key)
	if err != nil {
		return nil, err
	}
	l.pending.Add(1)
	p.pending.Add(1)
	return &Lease{l: l}, nil
}

// Session returns the session, which may have ended.
func (e *Lease) Session() *session.Session { return e.l.s }

// Release gives the session back. Releasing again does nothing.
func (e *Lease) Release() {
	if e.done.Swap(true) {
		return
	}
	p := e.l.slot.p
	p.pending.Add(-1)
	if e.l.pending.Add(-1) == 0 && e.l.draining.Load() {
		p.mu.Lock()
		e.l.goodbyeLocked()
		p.mu.Unlock()
	}
}

// place is one of the sessions at an address: the nth.
type place struct {
	address string
	nth     int
}

func (at place) hash() uint64 { return mix(hashOf(at.address) + uint64(at.nth)) } //nolint:gosec // not negative

// hashOf is FNV-1a of 64 bits (Fowler, Noll, Vo), which is the same in every process.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads what differs in few bits over all: the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
// Generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
