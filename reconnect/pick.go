package reconnect

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
)

// Policy selects the open session that Pick and Acquire return.
type Policy uint8

// The policies.
const (
	// RoundRobin picks the sessions in turn.
	RoundRobin Policy = iota + 1
	// LeastPending picks the session with the fewest leases, in turn among equals. Only Acquire makes leases.
	LeastPending
	// ByKey picks the same slot for the same key, by rendezvous hashing (Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit
	// Rates", 1998). Each slot has a weight for each key, and the open slot with the best weight is picked. If a session is lost, only its keys
	// move, each to its next best slot, and they return with the session. If the messages of a key must arrive in order, the sender has to wait
	// for answers before it sends on.
	//
	// The identity of a slot is the address that it was made for and its number at that address. So pools that are made with the same addresses
	// pick alike, also in different processes, if Sessions is the number of addresses or a multiple of it. If peers can choose keys, they can
	// choose the session. The time to pick grows with the number of sessions.
	ByKey
)

// view is the list of open sessions, by slot. A published view is immutable.
type view struct{ links []*link }

// score returns the rank of l under a policy. The link with the smallest score is picked.
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

// choose returns the index of the link with the smallest score that is not dead. Among equals it is the first from start on. It returns -1 if
// all are dead.
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

// pick returns the link of an open session, by the policy.
func (p *Pool) pick(key string) (*link, error) {
	v := p.current()
	if len(v.links) > 0 {
		hash := uint64(0)
		if p.o.Policy == ByKey {
			hash = hashOf(key)
		}
		start := int(p.picks.Add(1) % uint64(len(v.links))) //nolint:gosec // less than the length
		var dead []bool
		for range v.links {
			i := v.choose(p.o.Policy, hash, start, dead)
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

// alive reports whether the session still accepts messages. The session may be ending before the pool has been told. An empty frame is not
// written, but refused in that case.
func (l *link) alive() bool { return l.s.Write(nil) == nil }

// none returns the error of Pick and Acquire if no session is open.
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

// causesMax is the most causes that an error wraps.
const causesMax = 4

// causesLocked returns the last errors of the slots for which f returns true, at most causesMax.
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

// Pick returns an open session, by the policy of the options; only ByKey uses the key. Pick never blocks. The session may end at any time; its
// Send then returns an error. Errors: [ErrNone] with the last causes, also [ErrGaveUp] if no session will come any more, and [ErrClosed] after
// Close and Shutdown.
func (p *Pool) Pick(key string) (*session.Session, error) {
	l, err := p.pick(key)
	if err != nil {
		return nil, err
	}
	return l.s, nil
}

// Send sends a message on the session that Pick chooses. The error is that of Pick or of [session.Session.Send]. Send does not try another
// session after an error: if a session ends during a write, it is unknown whether the message has arrived. Like Send of a session, it blocks
// only under the Wait policy of the client.
func (p *Pool) Send(key string, msg []byte) error {
	l, err := p.pick(key)
	if err != nil {
		return err
	}
	return l.s.Send(msg)
}

// Lease is a session in use, for example by a request that waits for its answer. It counts for LeastPending, and a draining session does not end
// while it has leases, until DrainTimeout. Its methods may be called by any goroutine.
type Lease struct {
	l    *link
	done atomic.Bool
}

// Acquire picks a session as Pick does, and returns a lease on it. The caller must release the lease, even if the session has ended.
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

// Release ends the lease. Releasing again does nothing.
func (e *Lease) Release() {
	if e.done.Swap(true) {
		return
	}
	p := e.l.slot.p
	p.pending.Add(-1)
	if e.l.pending.Add(-1) == 0 && e.l.draining.Load() {
		p.mu.Lock()
		e.l.runDrainLocked()
		p.mu.Unlock()
	}
}

// place is the identity of a slot: the nth at an address.
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

// mix spreads a difference in few bits over all bits. It is the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
