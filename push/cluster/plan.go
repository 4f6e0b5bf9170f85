package cluster

import (
	"math"

	"github.com/sluice-push/sluice/internal/rendezvous"
)

// A plan is the work of one choice of gateways. Each gateway has a class, a number: gateways of a lower class come first, whatever their hash and
// load. The class is made of the rules that are not hard: canary times 16, and the place in the order of preference. Shares of sessions are fair
// within a class, because the rules divide clients unevenly between classes.
type plan struct {
	router *Router
	nodes  []node
	client *Client
	class  []uint8
	groups [excluded]group
	self   int // the gateway whose sessions are looked at, which is counted even if it is full; otherwise -1
}

const (
	canaryMiss = 16             // is added to the class of a gateway on the wrong side of the canary
	excluded   = 2 * canaryMiss // the class of gateways that the client must not get
)

// group is the gateways of a class together.
type group struct {
	sessions float64 // of the gateways that take clients, and of draining ones, whose clients the others will get
	weight   float64 // of the gateways that take clients
}

// share returns how many sessions of a group are fair for a gateway with a weight, if there will be more of them.
func (g *group) share(weight, more float64) float64 {
	return (g.sessions + more) / g.weight * weight
}

// exclude applies one hard rule. It reports whether the rule is for the client.
func (p *plan) exclude(rule *requirement) bool {
	if !rule.when.matches(p.client) {
		return false
	}
	var buf [MaxLabels]label
	wanted, _ := rule.labels.resolve(&buf, p.client)
	for i := range p.class {
		if !p.nodes[i].labels.contains(wanted) {
			p.class[i] = excluded
		}
	}
	return true
}

// divide applies the canary.
func (p *plan) divide(c *canary) {
	in := c.contains(p.client.User)
	for i, class := range p.class {
		if class != excluded && p.nodes[i].labels.contains(c.labels) != in {
			p.class[i] = class + canaryMiss
		}
	}
}

// order applies one order of preference. It reports whether the rule is for the client.
func (p *plan) order(rule *preference) bool {
	if !rule.when.matches(p.client) {
		return false
	}
	var buf [MaxLabels]label
	var place [MaxOrder]int // by entry; -1 if the client does not have a claim of it
	places := 0
	for i, labels := range rule.order {
		place[i] = -1
		if _, missing := labels.resolve(&buf, p.client); !missing {
			place[i] = places
			places++
		}
	}
	if places == 0 {
		return false
	}
	const unordered = 0x80
	for i, class := range p.class {
		if class != excluded {
			p.class[i] = class | unordered
		}
	}
	for i, labels := range rule.order {
		wanted, _ := labels.resolve(&buf, p.client)
		for j, class := range p.class {
			if place[i] >= 0 && class&unordered != 0 && p.nodes[j].labels.contains(wanted) {
				p.class[j] = class&^unordered + uint8(place[i]) //nolint:gosec // less than MaxOrder
			}
		}
	}
	for i, class := range p.class {
		if class&unordered != 0 {
			p.class[i] = class&^unordered + uint8(places) //nolint:gosec // at most MaxOrder
		}
	}
	return true
}

// classify applies all rules.
func (p *plan) classify() {
	for i := range p.router.require {
		p.exclude(&p.router.require[i])
	}
	if p.router.canary != nil {
		p.divide(p.router.canary)
	}
	for i := range p.router.prefer {
		if p.order(&p.router.prefer[i]) {
			break
		}
	}
}

// count sums up the groups.
func (p *plan) count() {
	for i, class := range p.class {
		n := &p.nodes[i]
		switch {
		case class == excluded:
		case n.draining:
			p.groups[class].sessions += float64(n.sessions)
		case !n.isFull() || i == p.self:
			p.groups[class].sessions += float64(n.sessions)
			p.groups[class].weight += n.weight
		}
	}
}

// The lanes of gateways. A gateway of a lower lane comes first; within a lane the hash or the load decides. Twice the class, plus one if the
// gateway is over its bound, is the lane of a gateway that takes clients.
const (
	overBound    = 1
	fullLane     = 2 * excluded            // plus the class
	drainingLane = fullLane + excluded     // plus the class; gateways of this lane and higher ones are draining
	lastLane     = drainingLane + excluded // plus the class: draining and full
	noLane       = 255
)

// lane returns the lane of a gateway.
func (p *plan) lane(i int, bounded bool) uint8 {
	n, class := &p.nodes[i], p.class[i]
	switch {
	case class == excluded:
		return noLane
	case n.draining && n.isFull():
		return lastLane + class
	case n.draining:
		return drainingLane + class
	case n.isFull():
		return fullLane + class
	case bounded && p.isOver(i):
		return 2*class + overBound
	}
	return 2 * class
}

// isOver reports whether a gateway would have more than its bound with one more session.
func (p *plan) isOver(i int) bool {
	return float64(p.nodes[i].sessions+1) > roundUp(p.router.bound*p.groups[p.class[i]].share(p.nodes[i].weight, 1))
}

// roundUp returns the next whole number, so that a gateway whose share is less than a session can have one.
func roundUp(sessions float64) float64 {
	const rounding = 1e-9 // more than the rounding errors of the calculation
	return math.Ceil(sessions - rounding)
}

// ranked is a gateway in an ordered list.
type ranked struct {
	index int
	lane  uint8
	score float64
}

// rank appends the best gateways, at most n, in their order. Gateways that are draining are left out, unless there are no others.
func (p *plan) rank(dst []ranked, n int) []ranked {
	if key, ok := p.router.key(p.client); ok {
		dst = p.byHash(dst, n, key)
	} else {
		dst = p.byLoad(dst, n)
	}
	for i := 1; i < len(dst); i++ {
		if dst[i].lane >= drainingLane && dst[0].lane < drainingLane {
			return dst[:i]
		}
	}
	return dst
}

// byHash ranks gateways by lane and hash.
func (p *plan) byHash(dst []ranked, n int, key uint64) []ranked {
	bounded := p.router.bound > 0
	for i := range p.nodes {
		r := ranked{index: i, lane: p.lane(i, bounded)}
		if r.lane == noLane || len(dst) == n && r.lane > dst[n-1].lane {
			continue
		}
		r.score = rendezvous.Score(key, p.nodes[i].hash, p.nodes[i].weight)
		if len(dst) < n {
			dst = append(dst, r)
		} else if !r.isBefore(&dst[n-1]) {
			continue
		}
		at := len(dst) - 1
		for ; at > 0 && r.isBefore(&dst[at-1]); at-- {
			dst[at] = dst[at-1]
		}
		dst[at] = r
	}
	return dst
}

func (r *ranked) isBefore(other *ranked) bool {
	return r.lane < other.lane || r.lane == other.lane && r.score > other.score
}

// byLoad ranks gateways by lane and by the better of two random choices. It changes the classes.
func (p *plan) byLoad(dst []ranked, n int) []ranked {
	random := p.client.Random
	for len(dst) < n {
		lane, weight := uint8(noLane), 0.
		for i := range p.nodes {
			switch l := p.lane(i, false); {
			case l < lane:
				lane, weight = l, p.nodes[i].weight
			case l == lane:
				weight += p.nodes[i].weight
			}
		}
		if lane == noLane {
			break
		}
		one := p.draw(lane, weight, &random)
		if other := p.draw(lane, weight, &random); p.nodes[other].load() < p.nodes[one].load() {
			one = other
		}
		dst = append(dst, ranked{index: one, lane: lane})
		p.class[one] = excluded
	}
	return dst
}

// load returns the number of sessions for the weight. If no loads are known, the first of two choices counts, which respects the weights.
func (n *node) load() float64 { return float64(n.sessions) / n.weight }

// draw chooses a gateway of a lane at random by weight, and replaces the random bits by others.
func (p *plan) draw(lane uint8, weight float64, random *uint64) int {
	*random += 0x9e3779b97f4a7c15 // as SplitMix64 does
	at := rendezvous.Unit(rendezvous.Mix(*random)) * weight
	last := -1
	for i := range p.nodes {
		if p.lane(i, false) != lane {
			continue
		}
		last = i
		if at -= p.nodes[i].weight; at < 0 {
			break
		}
	}
	return last
}
