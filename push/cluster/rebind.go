package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-push/sluice/internal/rendezvous"
)

// RebindOptions are the settings of a [Rebind]. For every field but Self and Router zero is the default.
type RebindOptions struct {
	// Self is the ID of the gateway whose sessions are looked at.
	Self string
	// Router has the rules.
	Router *Router
	// Rate is how many sessions this gateway moves in any second at most: 1 to [MaxRebindRate]; default 100. On average it is a tenth less.
	Rate int
	// Skew is how many times its fair share of sessions the gateway may have before sessions are moved because of its load: above 1, at least
	// Rules.Bound and at most [MaxBound]; default 1.25, or the bound if that is more. Clients that are routed by hash without a bound are not moved
	// because of loads.
	Skew float64
	// Cooldown is for how long a session stays where it is after it has connected; default one minute. So no session moves twice within that time.
	// Negative: none.
	Cooldown time.Duration
	// Settle is how long it takes until a moved session is counted by the gateway to which it was moved, and that gateway has announced it; default
	// 3 s. For that time the session counts as moved, whatever the set says. Negative: none.
	Settle time.Duration
}

// Defaults and limits of a Rebind.
const (
	DefaultRebindRate     = 100
	MaxRebindRate         = 100_000
	DefaultSkew           = 1.25
	DefaultRebindCooldown = time.Minute
	DefaultSettle         = 3 * time.Second
)

// Session is a session of the gateway.
type Session struct {
	// Client is what is known of the client. Random is not used.
	Client Client
	// Since is when it has connected to this gateway.
	Since time.Time
}

// Move says that a session should be moved.
type Move struct {
	// Session is its index in the slice that Step got.
	Session int
	// To is the gateway to which the client is sent. It must not be changed.
	To *Member
	// Reason says why.
	Reason Reason
}

// Reason says why a session should be moved.
type Reason uint8

// The reasons. Sessions with an earlier one move first.
const (
	// NotAllowed means that a hard rule excludes this gateway.
	NotAllowed Reason = iota + 1
	// CanaryChanged means that the client is on the wrong side of the canary.
	CanaryChanged
	// PreferredElsewhere means that there is a gateway again which a rule prefers.
	PreferredElsewhere
	// PlaceChanged means that there is a gateway again with a better hash for the client.
	PlaceChanged
	// Overloaded means that this gateway has too many sessions.
	Overloaded
)

var reasonNames = [...]string{
	"", NotAllowed: "not allowed", CanaryChanged: "canary changed", PreferredElsewhere: "preferred elsewhere", PlaceChanged: "place changed",
	Overloaded: "overloaded",
}

// String returns the reason in words, for instance "place changed".
func (r Reason) String() string {
	if r == 0 {
		return "reason(0)"
	}
	return nameOf(reasonNames[:], r, "reason")
}

// Rebind decides which sessions of a gateway move to other gateways after members, rules or loads have changed. It has no clock and no goroutine: the
// caller says what time it is, and which sessions to look at. Its methods must not be called concurrently.
//
// Each gateway has one, and decides about its own sessions only. No two gateways need to agree, because a session only moves to a gateway that is
// better for it by rules that are the same on all nodes, or away from one that is overloaded.
type Rebind struct {
	options RebindOptions
	levels  levels

	set      *Set
	nodes    []node // of the set, with sessions as they will be after the moves under way
	self     int    // the index of this gateway; -1 if it is not in the set
	peers    int    // gateways that may move sessions as this one does
	moved    []int  // by index: sessions under way to the gateway
	open     []bool // by index: the gateway takes sessions of others
	shedding bool   // this gateway gives sessions away because of its load
	class    []uint8
	found    []decision

	underWay []underWay
	from     time.Time // the rate is used up to this time; what lies between it and now is left for moves
	started  bool      // from is set
}

// levels are how many times its fair share a gateway has when something begins or ends. Between two of them things stay as they are.
type levels struct {
	open, close float64 // below open a gateway begins to take sessions of others, at close it stops
	rest, shed  float64 // above shed a gateway begins to give sessions away, at rest it stops
}

// underWay is a move whose session may not be counted yet by the gateway that gets it.
type underWay struct {
	until time.Time
	to    string
}

// decision is about one session.
type decision struct {
	session int
	reason  Reason
	atHome  bool // no gateway has a better hash for the client
	key     uint64
}

// NewRebind checks the options and returns a Rebind. The error has all problems.
func NewRebind(o *RebindOptions) (*Rebind, error) {
	r := &Rebind{options: *o}
	c := &r.options
	c.Rate = cmp.Or(c.Rate, DefaultRebindRate)
	c.Cooldown = max(0, cmp.Or(c.Cooldown, DefaultRebindCooldown))
	c.Settle = max(0, cmp.Or(c.Settle, DefaultSettle))
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster: rebind: "+format, args...)) }
	if c.Self == "" {
		problem("self: missing")
	}
	if c.Router == nil {
		problem("router: missing")
	}
	if c.Rate < 1 || c.Rate > MaxRebindRate {
		problem("rate: %d is not between 1 and %d", c.Rate, MaxRebindRate)
	}
	bound := 0.
	if c.Router != nil {
		bound = c.Router.bound
	}
	c.Skew = cmp.Or(c.Skew, max(DefaultSkew, bound))
	switch {
	case !(c.Skew > 1 && c.Skew <= MaxBound): // also for NaN
		problem("skew: %v is not above 1, at most %d", c.Skew, MaxBound)
	case c.Skew < bound:
		problem("skew: %v is less than the bound %v of the rules, up to which clients are sent to a gateway", c.Skew, bound)
	}
	quarter := (c.Skew - 1) / 4
	r.levels = levels{open: 1 + quarter, close: 1 + 2*quarter, rest: 1 + 3*quarter, shed: c.Skew}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Step returns the sessions to move now, those with the best reasons first. The caller tells their clients to connect to the given gateways. It
// calls Step with the sessions that it has now, all or some of them, and goes on with others the next time.
//
// next is when another call with the same set and sessions can return more; zero: not before one of them changes. A call before that returns nothing
// but costs as much as any other. Times must not go back. The set should have the present number of sessions of this gateway, see [Set.WithSessions].
//
// Nothing is moved while this gateway is draining, because then all sessions leave at the pace of the drain, or while it is not in the set.
func (r *Rebind) Step(now time.Time, s *Set, sessions []Session) (moves []Move, next time.Time) {
	r.use(now, s)
	if r.self < 0 || r.nodes[r.self].draining {
		return nil, time.Time{}
	}
	r.found = r.found[:0]
	for i := range sessions {
		d, _, ok := r.decide(now, &sessions[i], i)
		if !ok {
			continue
		}
		if until := sessions[i].Since.Add(r.options.Cooldown); now.Before(until) {
			next = earlier(next, until)
			continue
		}
		r.found = append(r.found, d)
	}
	slices.SortFunc(r.found, func(a, b decision) int {
		switch {
		case a.reason != b.reason:
			return int(a.reason) - int(b.reason)
		case a.atHome != b.atHome: // sessions with a better hash elsewhere move first
			if b.atHome {
				return -1
			}
			return 1
		case a.key != b.key: // so that the sessions of a user go together
			return cmp.Compare(a.key, b.key)
		}
		return a.session - b.session
	})
	for _, d := range r.found {
		// Moves before this one have changed the loads.
		again, to, ok := r.decide(now, &sessions[d.session], d.session)
		if !ok {
			continue
		}
		if !r.spend(now) {
			next = earlier(next, r.from.Add(r.interval()))
			break
		}
		r.nodes[r.self].sessions--
		r.nodes[to].sessions++
		r.moved[to]++
		if r.options.Settle > 0 {
			r.underWay = append(r.underWay, underWay{now.Add(r.options.Settle), r.nodes[to].member.ID})
		}
		moves = append(moves, Move{d.session, r.nodes[to].member, again.reason})
	}
	// When the first move has settled, its session no longer counts as moved, so more may be possible.
	if len(r.underWay) > 0 {
		next = earlier(next, r.underWay[0].until)
	}
	return moves, next
}

// earlier returns the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// interval is the time that one move takes. It is a tenth longer than the rate says, because after a pause some moves may come at once.
func (r *Rebind) interval() time.Duration {
	return time.Duration(math.Ceil(1.1 * float64(time.Second) / float64(r.options.Rate)))
}

// spend takes the time of one move, and reports whether there was enough. No more than a tenth of a second can be saved.
func (r *Rebind) spend(now time.Time) bool {
	interval := r.interval()
	if oldest := now.Add(-max(interval, time.Second/10)); !r.started || r.from.Before(oldest) {
		r.from, r.started = oldest, true
	}
	if r.from.Add(interval).After(now) {
		return false
	}
	r.from = r.from.Add(interval)
	return true
}

// use makes s the set for the next decisions, and counts the moves under way in its numbers of sessions.
func (r *Rebind) use(now time.Time, s *Set) {
	if r.set != s {
		open := make(map[string]bool, len(r.nodes))
		for i := range r.nodes {
			open[r.nodes[i].member.ID] = r.open[i]
		}
		r.open = make([]bool, len(s.gateways))
		r.moved = make([]int, len(s.gateways))
		r.class = make([]uint8, len(s.gateways))
		r.self, r.peers = -1, -1
		for i := range s.gateways {
			if !s.gateways[i].draining {
				r.peers++ // but for this one
			}
			id := s.gateways[i].member.ID
			r.open[i] = open[id]
			if id == r.options.Self {
				r.self = i
			}
		}
		r.set = s
	}
	r.nodes = append(r.nodes[:0], s.gateways...)
	r.underWay = slices.DeleteFunc(r.underWay, func(u underWay) bool { return !now.Before(u.until) })
	to := make(map[string]int)
	for _, u := range r.underWay {
		to[u.to]++
	}
	for i := range r.nodes {
		r.moved[i] = to[r.nodes[i].member.ID]
		r.nodes[i].sessions += r.moved[i]
	}
	if r.self >= 0 {
		r.nodes[r.self].sessions = max(0, r.nodes[r.self].sessions-len(r.underWay))
	}
}

// decide says whether a session should move, and to which gateway.
func (r *Rebind) decide(now time.Time, s *Session, index int) (d decision, to int, ok bool) {
	client := s.Client
	client.Random = rendezvous.Mix(uint64(now.UnixNano()) + uint64(index)) //nolint:gosec // any number will do
	for i := range r.class {
		r.class[i] = 0
	}
	p := plan{router: r.options.Router, nodes: r.nodes, client: &client, class: r.class, self: r.self}
	p.classify()
	p.count()
	key, hashed := p.router.key(&client)
	d = decision{session: index, atHome: true, key: key}
	here := p.class[r.self]
	var score float64
	if here == excluded {
		d.reason = NotAllowed
	} else {
		r.updateShedding(&p)
		score = rendezvous.Score(key, p.nodes[r.self].hash, p.nodes[r.self].weight)
	}
	best := uint8(excluded) // the best class that takes sessions
	for i, class := range p.class {
		n := &p.nodes[i]
		if class == excluded || i == r.self || n.draining {
			p.class[i] = excluded
			continue
		}
		if hashed && class == here && rendezvous.Score(key, n.hash, n.weight) > score {
			d.atHome = false
		}
		// The gateways of a better class take all clients that belong there, whatever the load.
		if class < here && !n.hasReserve(n.sessions) || class >= here && !r.takes(&p, i) {
			p.class[i] = excluded
			continue
		}
		best = min(best, class)
	}
	switch {
	case best == excluded, best > here:
		return d, 0, false
	case here == excluded:
	case best < here && best/canaryMiss != here/canaryMiss:
		d.reason = CanaryChanged
	case best < here:
		d.reason = PreferredElsewhere
	case hashed && !d.atHome && keepBetterHash(&p, here, key, score):
		d.reason = PlaceChanged
	case r.shedding && (!hashed || p.router.bound > 0):
		d.reason = Overloaded
	default:
		return d, 0, false
	}
	var memory [1]ranked
	ranking := p.rank(memory[:0], 1)
	if len(ranking) == 0 {
		return d, 0, false
	}
	return d, ranking[0].index, true
}

// keepBetterHash excludes all gateways but those of a class that have a better hash for the client than a score. If there are none, it excludes nothing
// and reports false.
func keepBetterHash(p *plan, class uint8, key uint64, score float64) bool {
	isBetter := func(i int) bool {
		return p.class[i] == class && rendezvous.Score(key, p.nodes[i].hash, p.nodes[i].weight) > score
	}
	found := false
	for i := range p.nodes {
		found = found || isBetter(i)
	}
	for i := range p.nodes {
		if found && !isBetter(i) {
			p.class[i] = excluded
		}
	}
	return found
}

// updateShedding sets shedding by the load of this gateway.
func (r *Rebind) updateShedding(p *plan) {
	self := &p.nodes[r.self]
	fair := p.groups[p.class[r.self]].share(self.weight, 0)
	switch {
	case float64(self.sessions) > roundUp(r.levels.shed*fair):
		r.shedding = true
	case float64(self.sessions) <= roundUp(r.levels.rest*fair):
		r.shedding = false
	}
}

// hasReserve reports whether a gateway with some sessions has a tenth of its capacity left. A full one is not filled again with each session that
// leaves it.
func (n *node) hasReserve(sessions int) bool {
	return n.capacity == 0 || sessions < n.capacity-n.capacity/10
}

// takes reports whether another gateway takes one more session from this one. It begins to take sessions below the level open, and stops at the
// level close. All other gateways may be moving as many sessions to it, so these count too: otherwise all would fill the same gateway at once.
func (r *Rebind) takes(p *plan, i int) bool {
	n := &p.nodes[i]
	sessions := n.sessions + r.moved[i]*max(0, r.peers-1)
	if !n.hasReserve(sessions) {
		r.open[i] = false
		return false
	}
	fair := p.groups[p.class[i]].share(n.weight, 0)
	switch {
	case float64(sessions) < roundUp(r.levels.open*fair):
		r.open[i] = true
	case float64(sessions) >= roundUp(r.levels.close*fair):
		r.open[i] = false
	}
	return r.open[i]
}
