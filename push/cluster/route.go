package cluster

import (
	"errors"
	"fmt"
)

// ErrNoGateway means that there is no gateway for a client.
var ErrNoGateway = errors.New("cluster: no gateway")

// manyNodes is the largest number of gateways for which Route keeps its working memory on the stack.
const manyNodes = 256

// Route appends the gateways for a client to dst, the best first, at most Rules.Addresses of them. Gateways that are full come last, and draining
// ones only if there are no others. The error wraps [ErrNoGateway] and says which rule has left none. The caller must not change the members.
//
// The same client gets the same gateways from every node that has an equal set, for LeastLoaded with the same random bits. Route does not allocate
// if dst has room, there are no groups of channels and no more than 256 gateways.
func (r *Router) Route(dst []*Member, s *Set, c *Client) ([]*Member, error) {
	var memory [manyNodes]uint8
	class := memory[:]
	if len(s.gateways) > len(memory) {
		class = make([]uint8, len(s.gateways))
	}
	p := plan{router: r, nodes: s.gateways, client: c, class: class[:len(s.gateways)], self: -1}
	p.classify()
	p.count()
	var best [MaxAddresses]ranked
	ranking := p.rank(best[:0], r.addresses)
	if len(ranking) == 0 {
		return dst, r.noGateway(s, c)
	}
	for _, one := range ranking {
		dst = append(dst, s.gateways[one.index].member)
	}
	return dst, nil
}

// Allows reports whether the hard rules allow a client to be on a gateway. A gateway calls it for itself when a client connects, because the client may
// have come without a route.
func (r *Router) Allows(m *Member, c *Client) bool {
	labels := compileLabels(m.Labels)
	for i := range r.require {
		rule := &r.require[i]
		var buf [MaxLabels]label
		if wanted, _ := rule.labels.resolve(&buf, c); rule.when.matches(c) && !labels.contains(wanted) {
			return false
		}
	}
	return true
}

// noGateway returns the error for a client that gets no gateway.
func (r *Router) noGateway(s *Set, c *Client) error {
	if len(s.gateways) == 0 {
		return fmt.Errorf("%w: none of %d nodes is a gateway with a public URL", ErrNoGateway, len(s.members))
	}
	p := plan{router: r, nodes: s.gateways, client: c, class: make([]uint8, len(s.gateways)), self: -1}
	for i := range r.require {
		rule := &r.require[i]
		if p.exclude(rule) && len(p.left()) == 0 {
			var buf [MaxLabels]label
			wanted, _ := rule.labels.resolve(&buf, c)
			return fmt.Errorf("%w: rule require[%d] %q wants %v, and leaves none of %d gateways", ErrNoGateway, i, rule.name, wanted, len(s.gateways))
		}
	}
	return ErrNoGateway
}
