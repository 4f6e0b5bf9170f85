package balance

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/rendezvous"
)

// Policy says how a server is chosen.
type Policy uint8

// The policies. The package comment says what they do.
const (
	RoundRobin Policy = iota + 1
	LeastPending
	ByKey
)

// Options are the settings of a [Balancer]. For every field zero is the default; nil is all defaults.
type Options struct {
	// Policy is how a server is chosen; default LeastPending.
	Policy Policy
	// Zone is the caller's zone, whose servers are preferred; default none.
	Zone string
	// Ejection is when servers get no calls for a while; nil is all defaults.
	Ejection *Ejection
	// Random returns random bits; nil is that of package math/rand/v2. It may be called concurrently.
	Random func() uint64
}

// ErrNone says that there is no server.
var ErrNone = errors.New("balance: the service has no server")

// Balancer chooses among the servers of a service. All methods may be called concurrently.
type Balancer struct {
	options  Options
	ejection Ejection

	mu      sync.Mutex // guards changes of the set
	current atomic.Pointer[set]
}

// set is the servers at one time. It never changes but for the counters.
type set struct {
	all, near group
}

// group is servers to choose from, sorted by address.
type group struct {
	targets []*Target
	turns   []int32 // indexes of targets, for RoundRobin and LeastPending: each as often as its weight says
	next    *atomic.Uint64
}

// Target is a server, and what is known of it. Its methods may be called concurrently.
type Target struct {
	// Endpoint is the server. It must not be changed.
	Endpoint discovery.Endpoint

	b     *Balancer
	hash  uint64
	state *state // is kept when the weight or the labels change
}

// Choice is the server of one call, until Done.
type Choice struct {
	*Target
	probe uint64 // of a call that decides about a server that is ejected: its number; otherwise 0
}

// Call is what is known of a call before a server is chosen.
type Call struct {
	// Key chooses the server with the policy ByKey.
	Key string
	// Avoid are servers that the call was sent to already. They are chosen only if there is no other.
	Avoid []*Target
}

// avoids reports whether a server is in Avoid, perhaps as it was before a Set.
func (c *Call) avoids(t *Target) bool {
	return slices.ContainsFunc(c.Avoid, func(a *Target) bool { return a.state == t.state })
}

// New makes a Balancer without servers.
func New(o *Options) *Balancer {
	b := &Balancer{}
	if o != nil {
		b.options = *o
	}
	if b.options.Policy == 0 {
		b.options.Policy = LeastPending
	}
	if b.options.Random == nil {
		b.options.Random = rand.Uint64
	}
	b.ejection = b.options.Ejection.withDefaults()
	b.current.Store(&set{})
	return b
}

// Set replaces the servers. What is known of servers that stay is kept. Of endpoints with one address, the first counts; invalid ones are left
// out, and the error names them.
func (b *Balancer) Set(endpoints []discovery.Endpoint) error {
	endpoints, err := discovery.Normalize(slices.Clone(endpoints))
	b.mu.Lock()
	defer b.mu.Unlock()
	before := make(map[string]*Target)
	for _, t := range b.current.Load().all.targets {
		before[t.Endpoint.Address] = t
	}
	next := &set{}
	for i := range endpoints {
		t := &Target{Endpoint: endpoints[i], b: b, hash: rendezvous.Hash(endpoints[i].Address), state: &state{}}
		if old := before[endpoints[i].Address]; old != nil {
			t.state = old.state
		}
		next.all.targets = append(next.all.targets, t)
		if b.options.Zone != "" && t.Endpoint.Zone == b.options.Zone {
			next.near.targets = append(next.near.targets, t)
		}
	}
	next.all.prepare(b.options.Random())
	next.near.prepare(b.options.Random())
	b.current.Store(next)
	return err
}

// Targets returns the servers, sorted by address.
func (b *Balancer) Targets() []*Target { return slices.Clone(b.current.Load().all.targets) }

// Pick chooses a server for a call, which counts as under way until Done. The error is [ErrNone].
func (b *Balancer) Pick(now time.Time, c Call) (Choice, error) {
	s := b.current.Load()
	if len(s.all.targets) == 0 {
		return Choice{}, ErrNone
	}
	choice := b.choose(&s.near, now, &c, false)
	if choice.Target == nil {
		choice = b.choose(&s.all, now, &c, false)
	}
	if choice.Target == nil {
		choice = b.choose(&s.near, now, &c, true)
	}
	if choice.Target == nil {
		choice = b.choose(&s.all, now, &c, true)
	}
	if choice.Target == nil { // all were tried
		c.Avoid = nil
		choice = b.choose(&s.all, now, &c, true)
	}
	choice.state.pending.Add(1)
	return choice, nil
}

// choose chooses a server of a group; none if none can be used. If lenient, ejected ones can.
func (b *Balancer) choose(g *group, now time.Time, c *Call, lenient bool) Choice {
	if len(g.targets) == 0 {
		return Choice{}
	}
	switch b.options.Policy {
	case ByKey:
		return g.byKey(now, c, lenient)
	case RoundRobin:
		first := g.next.Add(1)
		return g.from(first, now, c, lenient)
	default:
		one := g.from(b.options.Random(), now, c, lenient)
		if one.Target == nil || one.probe != 0 {
			return one
		}
		// Another one may be the same: then a turn with a large weight has been chosen twice.
		other := g.turns[b.options.Random()%uint64(len(g.turns))]
		if two := g.targets[other]; two != one.Target && !c.avoids(two) && two.state.isGood() && two.load() < one.load() {
			return Choice{Target: two}
		}
		return one
	}
}

// from returns the first server that can be used, beginning with a turn.
func (g *group) from(turn uint64, now time.Time, c *Call, lenient bool) Choice {
	n := uint64(len(g.turns))
	for i := range n {
		t := g.targets[g.turns[(turn+i)%n]]
		if c.avoids(t) {
			continue
		}
		if ok, probe := t.state.admits(now, lenient); ok {
			return Choice{t, probe}
		}
	}
	return Choice{}
}

// byKey returns the server with the best hash for the key, of all that can be used.
func (g *group) byKey(now time.Time, c *Call, lenient bool) Choice {
	key := rendezvous.Hash(c.Key)
	for skipped := []*Target(nil); len(skipped) < len(g.targets); {
		var best *Target
		score := math.Inf(-1)
		for _, t := range g.targets {
			if s := t.score(key); s > score && !slices.Contains(skipped, t) {
				best, score = t, s
			}
		}
		if !c.avoids(best) {
			if ok, probe := best.state.admits(now, lenient); ok {
				return Choice{best, probe}
			}
		}
		skipped = append(skipped, best)
	}
	return Choice{}
}

// score returns how good a server is for a key. The one with the largest wins, with a chance in proportion to its weight.
func (t *Target) score(key uint64) float64 {
	return rendezvous.Score(key, t.hash, float64(t.Endpoint.Share()))
}

// load returns how many calls are under way, for the weight of the server, with one more.
func (t *Target) load() float64 {
	return float64(t.state.pending.Load()+1) / float64(t.Endpoint.Share())
}

// Pending returns how many calls are under way.
func (t *Target) Pending() int { return int(t.state.pending.Load()) }

// maxTurns is how many turns a group may have. Weights are rounded to that.
const maxTurns = 4096

// prepare makes the turns, beginning somewhere, so that callers do not go in step.
func (g *group) prepare(start uint64) {
	g.next = &atomic.Uint64{}
	g.next.Store(start)
	weights, common := make([]int, len(g.targets)), 0
	total := 0
	for i, t := range g.targets {
		weights[i] = t.Endpoint.Share()
		common = gcd(common, weights[i])
		total += weights[i]
	}
	if total > 0 {
		total /= common
	}
	most := max(maxTurns, 2*len(weights))
	sum := 0
	for i := range weights {
		weights[i] /= common
		if total > most {
			weights[i] = max(1, int(math.Round(float64(weights[i])*float64(most)/float64(total))))
		}
		sum += weights[i]
	}
	// Smooth weighted round robin: in each turn all gain their weight, and the first of all pays the sum.
	credit := make([]int, len(weights))
	g.turns = make([]int32, 0, sum)
	if sum == len(weights) { // all are 1, so each has its turn in order: the loop would find the same in quadratic time
		for i := range weights {
			g.turns = append(g.turns, int32(i)) //nolint:gosec // fewer than 2³¹ endpoints
		}
		return
	}
	for range sum {
		best := 0
		for i := range credit {
			if credit[i] += weights[i]; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		g.turns = append(g.turns, int32(best)) //nolint:gosec // fewer than there are endpoints
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
