package clusternode

import (
	"sync"

	"github.com/sluice-push/sluice/push/broker"
	gatewaylink "github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

var _ gatewaylink.Placement = (*places)(nil)

// places chooses the hubs that a gateway asks: for each partition, and for control messages and leases, which belong to no partition. Before members
// are known, these are the hubs that the configuration names.
type places struct {
	first  gatewaylink.Fixed // hubs of the configuration; they may be names of several hubs
	pinned map[string]cluster.Labels
	placer *cluster.Placer
	any    *cluster.Placer // for control messages and leases
	zone   string
	node   string

	mu      sync.Mutex    // guards what follows
	set     *cluster.Set  // nil while no hub is known
	changed chan struct{} // closed when set changes; then there is a new one
}

func newPlaces(cfg *config.Config, node string) (*places, error) {
	c := &cfg.Cluster
	rules := c.Placement.Rules()
	p := &places{pinned: rules.Pinned, zone: c.Labels[rules.ZoneLabel], node: node, changed: make(chan struct{})}
	if d := &c.Discovery; d.Kind == config.DiscoverByBroker || d.Kind == config.DiscoverStatic {
		p.first = d.Addresses
	}
	var err error
	if p.placer, err = cluster.NewPlacer(rules); err != nil {
		return nil, err
	}
	p.any, err = cluster.NewPlacer(&cluster.Placement{Policy: rules.Policy, ZoneLabel: rules.ZoneLabel})
	return p, err
}

// update takes a newer set of members.
func (p *places) update(set *cluster.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.any.Place(set, broker.Partition{}, ""); err != nil {
		return // without any hub the old ones are better, and those of the configuration
	}
	if p.set != nil && p.set.SamePlaces(set) {
		p.set = set
		return
	}
	p.set = set
	close(p.changed)
	p.changed = make(chan struct{})
}

// Changed implements [gatewaylink.Placement].
func (p *places) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Hubs implements [gatewaylink.Placement]. For leases and control messages, each gateway prefers another hub. The hubs of the configuration come
// last: all the hubs that were known may be gone while the gateway could not hear of others.
func (p *places) Hubs(part broker.Partition) []string {
	p.mu.Lock()
	set := p.set
	p.mu.Unlock()
	belongs := part != broker.Partition{}
	if set == nil {
		if belongs && p.pinned[part.Namespace] != nil {
			return nil // any of them could be the wrong one
		}
		return p.first.Hubs(part)
	}
	placer := p.placer
	if !belongs {
		placer, part = p.any, broker.Partition{Namespace: p.node}
	}
	ranked, err := placer.Rank(set, part, p.zone)
	if err != nil {
		ranked = nil // no hub has the labels of the namespace
	}
	addresses := make([]string, 0, len(ranked)+len(p.first))
	for _, m := range ranked {
		addresses = append(addresses, m.Link)
	}
	if !belongs {
		addresses = append(addresses, p.first...)
	}
	return addresses
}
