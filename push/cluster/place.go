package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/internal/rendezvous"
	"github.com/sluice-push/sluice/push/broker"
)

// PlacementPolicy says by what a hub is chosen for a partition.
type PlacementPolicy uint8

// The policies of placement.
const (
	// PlaceByHash chooses by weighted rendezvous hashing among all hubs.
	PlaceByHash PlacementPolicy = iota
	// PlaceByZone does so among the hubs in the zone of the gateway that asks, and among all hubs if there is none.
	PlaceByZone
)

var placementNames = [...]string{PlaceByHash: "hash", PlaceByZone: "zone"}

// String returns the name used in configuration: hash or zone.
func (p PlacementPolicy) String() string { return nameOf(placementNames[:], p, "placement policy") }

// UnmarshalText accepts hash and zone.
func (p *PlacementPolicy) UnmarshalText(text []byte) error {
	return parse(p, placementNames[:], text, "placement policy")
}

// MarshalText returns the policy's name.
func (p PlacementPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ZoneLabel is the label of nodes that names their zone, such as a data center, unless a configuration names another one.
const ZoneLabel = "zone"

// Placement are the rules by which partitions are placed on hubs. The zero value is hashing over all hubs.
type Placement struct {
	// Policy is that of all namespaces.
	Policy PlacementPolicy
	// ZoneLabel is the label that PlaceByZone compares; default [ZoneLabel].
	ZoneLabel string
	// Pinned has, by namespace, labels that the hubs of the namespace must have. The policy then chooses among these hubs.
	Pinned map[string]Labels
}

// ErrNoHub means that there is no hub for a partition.
var ErrNoHub = errors.New("cluster: no hub")

// Placer places partitions on hubs. It never changes, so all methods may be called concurrently.
type Placer struct {
	policy    PlacementPolicy
	zoneLabel string
	pinned    map[string]labelList
}

// NewPlacer checks rules and returns a Placer for them; nil is the zero value. The error has all problems.
func NewPlacer(rules *Placement) (*Placer, error) {
	p := &Placer{zoneLabel: ZoneLabel}
	if rules == nil {
		return p, nil
	}
	var errs []error
	if int(rules.Policy) >= len(placementNames) {
		errs = append(errs, fmt.Errorf("cluster: placement: unknown %v", rules.Policy))
	}
	p.policy = rules.Policy
	if rules.ZoneLabel != "" {
		p.zoneLabel = rules.ZoneLabel
	}
	if err := checkText("zone label", p.zoneLabel); err != nil {
		errs = append(errs, fmt.Errorf("cluster: placement: %w", err))
	}
	p.pinned = make(map[string]labelList, len(rules.Pinned))
	for namespace, labels := range rules.Pinned {
		if err := checkLabels(labels); err != nil {
			errs = append(errs, fmt.Errorf("cluster: placement: namespace %q: %w", shortened(namespace), err))
		}
		if len(labels) == 0 {
			errs = append(errs, fmt.Errorf("cluster: placement: namespace %q: labels: none is given", shortened(namespace)))
		}
		p.pinned[namespace] = compileLabels(labels)
	}
	if err := joinSorted(errs); err != nil {
		return nil, err
	}
	return p, nil
}

// joinSorted joins errors in the order of their texts, because those found in a map come in any order.
func joinSorted(errs []error) error {
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// keyOf returns the hash of a partition.
func keyOf(p broker.Partition) uint64 {
	return rendezvous.Mix(rendezvous.Hash(p.Namespace) + uint64(p.Index)) //nolint:gosec // any number will do
}

// The ranks of hubs. A hub of a lower rank is chosen first.
const (
	outOfZone  = 1 << iota // set for hubs outside the zone
	isDraining             // set for hubs that are draining
	notPinned              // the hub may not be chosen
)

// rank returns the rank of a hub for a gateway in a zone.
func (p *Placer) rank(hub *node, pinned labelList, zone string) int {
	if !hub.labels.contains(pinned) {
		return notPinned
	}
	rank := 0
	if hub.draining {
		rank |= isDraining
	}
	if p.policy == PlaceByZone && zone != "" && hub.labels.value(p.zoneLabel) != zone {
		rank |= outOfZone
	}
	return rank
}

// Place returns the hub of a partition, for a gateway in a zone. With PlaceByHash, all gateways get the same hub whatever their zone. A hub that is
// draining is chosen only if there is no other. The error wraps [ErrNoHub] and says what is missing. The caller must not change the member.
func (p *Placer) Place(s *Set, partition broker.Partition, zone string) (*Member, error) {
	pinned, key := p.pinned[partition.Namespace], keyOf(partition)
	best, bestRank, bestScore := -1, notPinned, math.Inf(-1)
	for i := range s.hubs {
		hub := &s.hubs[i]
		rank := p.rank(hub, pinned, zone)
		if rank > bestRank || rank == notPinned {
			continue
		}
		if score := rendezvous.Score(key, hub.hash, hub.weight); rank < bestRank || score > bestScore {
			best, bestRank, bestScore = i, rank, score
		}
	}
	if best < 0 {
		return nil, p.noHub(s, partition)
	}
	return s.hubs[best].member, nil
}

// Rank returns all hubs that may have a partition: the one that Place returns, and then those to try when it cannot be reached. The error is that of
// Place.
func (p *Placer) Rank(s *Set, partition broker.Partition, zone string) ([]*Member, error) {
	type candidate struct {
		hub   *node
		rank  int
		score float64
	}
	pinned, key := p.pinned[partition.Namespace], keyOf(partition)
	var candidates []candidate
	for i := range s.hubs {
		hub := &s.hubs[i]
		if rank := p.rank(hub, pinned, zone); rank != notPinned {
			candidates = append(candidates, candidate{hub, rank, rendezvous.Score(key, hub.hash, hub.weight)})
		}
	}
	if len(candidates) == 0 {
		return nil, p.noHub(s, partition)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		switch {
		case a.rank != b.rank:
			return a.rank - b.rank
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	out := make([]*Member, len(candidates))
	for i, c := range candidates {
		out[i] = c.hub.member
	}
	return out, nil
}

// noHub returns the error for a partition that cannot be placed.
func (p *Placer) noHub(s *Set, partition broker.Partition) error {
	if len(s.hubs) == 0 {
		return fmt.Errorf("%w: none of %d nodes is a hub with a link address", ErrNoHub, len(s.members))
	}
	return fmt.Errorf("%w: namespace %q is pinned to hubs with %v, and none of %d hubs has that", ErrNoHub, partition.Namespace,
		p.pinned[partition.Namespace], len(s.hubs))
}

// Explain says step by step why Place chooses a hub. The members of the explanation are those of Rank, or nil with the error as its problem.
func (p *Placer) Explain(s *Set, partition broker.Partition, zone string) Explanation {
	e := Explanation{Subject: fmt.Sprintf("hub of partition %d of namespace %q", partition.Index, partition.Namespace)}
	if zone != "" {
		e.Subject += fmt.Sprintf(", for a gateway in zone %q", zone)
	}
	left := make([]string, len(s.hubs))
	for i := range s.hubs {
		left[i] = s.hubs[i].member.ID
	}
	e.add("hubs", left, "all nodes with the role hub or all and a link address")
	ranked, err := p.Rank(s, partition, zone)
	pinned, isPinned := p.pinned[partition.Namespace]
	nodes := make(map[string]*node, len(s.hubs))
	for i := range s.hubs {
		nodes[s.hubs[i].member.ID] = &s.hubs[i]
	}
	keep := func(rule, why string, wanted func(*node) bool) {
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool { return !wanted(nodes[id]) })
		e.add(rule, left, why)
	}
	if isPinned {
		keep("pinned", fmt.Sprintf("the namespace is pinned to hubs with %v", pinned), func(n *node) bool { return n.labels.contains(pinned) })
	}
	if err != nil {
		e.Problem = err.Error()
		return e
	}
	best := p.rank(nodes[ranked[0].ID], pinned, zone)
	switch staying := func(n *node) bool { return n.draining == (best&isDraining != 0) }; {
	case best&isDraining != 0:
		keep("draining", "all hubs that are left are draining, so one of them is chosen", staying)
	default:
		keep("draining", "hubs that are draining are left out", staying)
	}
	switch {
	case p.policy != PlaceByZone:
	case zone == "":
		keep("zone", "the gateway has no zone", func(*node) bool { return true })
	case best&outOfZone != 0:
		keep("zone", fmt.Sprintf("no hub that is left has %s=%s, so all are used", p.zoneLabel, zone), func(*node) bool { return true })
	default:
		keep("zone", fmt.Sprintf("hubs with %s=%s are preferred", p.zoneLabel, zone),
			func(n *node) bool { return n.labels.value(p.zoneLabel) == zone })
	}
	for _, m := range ranked {
		e.Members = append(e.Members, m.ID)
	}
	e.add("hash", e.Members[:1], "the best hash of the partition, by weight")
	return e
}
