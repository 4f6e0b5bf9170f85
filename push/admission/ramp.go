package admission

import (
	"net/netip"
	"time"
)

// Ramp bounds how many clients connect in a second: to the node, and from one address. After a rest, the clients of one second may come at once.
// Calls must not overlap. Times are in milliseconds of any clock that does not run backwards.
type Ramp struct {
	node, address Rate
	all           Bucket

	// The buckets of addresses that have connected of late. A bucket is full a second after its last use, so it can be dropped then: old has the ones
	// that were not used since turned.
	recent, old map[netip.Addr]*Bucket
	turned      int64

	free float64 // when the clients that were refused so far would all have come, one after another
}

const (
	rampTurn     = 1000    // in milliseconds: after it, an unused bucket is full
	rampMost     = 1 << 16 // buckets in one map: a flood of addresses forgets old ones early
	rampLongest  = 30 * time.Second
	rampShortest = time.Second
)

// NewRamp returns a ramp for so many connects a second to the node, and from one address. 0 and negative numbers are no bound.
func NewRamp(node, address int) *Ramp {
	rate := func(n int) Rate { return Rate{int64(max(n, 0)), int64(max(n, 0))} }
	return &Ramp{node: rate(node), address: rate(address), recent: map[netip.Addr]*Bucket{}}
}

// Admit counts a client that connects from an address. If there are too many, it calls refuse with the name of the limit, [ConnectsPerAddress]
// before [Connects], and admits the client all the same if that returns false. A client that is not admitted counts for neither limit, so that one
// address cannot keep the others out.
func (r *Ramp) Admit(addr netip.Addr, now int64, refuse func(Name) bool) bool {
	var own *Bucket
	if r.address.PerSecond > 0 {
		own = r.bucket(addr, now)
		if !own.Has(r.address, 1, now) && refuse(ConnectsPerAddress) {
			return false
		}
	}
	if !r.all.Has(r.node, 1, now) && refuse(Connects) {
		return false
	}
	if own != nil {
		own.Take(r.address, 1, now)
	}
	r.all.Take(r.node, 1, now)
	return true
}

// bucket returns the bucket of an address.
func (r *Ramp) bucket(addr netip.Addr, now int64) *Bucket {
	if now-r.turned >= rampTurn || len(r.recent) >= rampMost {
		r.recent, r.old, r.turned = map[netip.Addr]*Bucket{}, r.recent, now
	}
	b := r.recent[addr]
	if b == nil {
		if b = r.old[addr]; b == nil {
			b = new(Bucket)
		}
		r.recent[addr] = b
	}
	return b
}

// Wait returns when a client that Admit has refused for [Connects] should come again. Clients that follow it come one after another, as the node
// admits them: each call gives the next place. It is 1 to 30 seconds.
func (r *Ramp) Wait(now int64) time.Duration {
	if r.node.PerSecond == 0 {
		return rampShortest
	}
	first, last := float64(now)+float64(rampShortest.Milliseconds()), float64(now)+float64(rampLongest.Milliseconds())
	r.free = min(max(r.free+1000/float64(r.node.PerSecond), first), last)
	return time.Duration(r.free-float64(now)) * time.Millisecond
}
