package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// left returns the IDs of the gateways that are not excluded, by class.
func (p *plan) left() []string {
	type candidate struct {
		id    string
		class uint8
	}
	var found []candidate
	for i, class := range p.class {
		if class != excluded {
			found = append(found, candidate{p.nodes[i].member.ID, class})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return int(a.class) - int(b.class) })
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	return ids
}

// Explain says step by step why Route chooses gateways. The members of the explanation are those of Route, or nil with the error as its problem.
func (r *Router) Explain(s *Set, c *Client) Explanation {
	e := Explanation{Subject: "gateways for " + c.describe()}
	p := plan{router: r, nodes: s.gateways, client: c, class: make([]uint8, len(s.gateways)), self: -1}
	e.add("gateways", p.left(), "all nodes with the role gateway or all and a public URL")
	p.explainRequire(&e)
	if len(p.left()) == 0 {
		e.Problem = r.noGateway(s, c).Error()
		return e
	}
	p.explainCanary(&e)
	p.explainPrefer(&e)
	policy, why := p.policy()
	e.add(policy, p.unlimited(), why)
	p.count()
	overflow := p.explainOverflow()
	ranking := p.rank(make([]ranked, 0, len(p.nodes)), len(p.nodes))
	for _, one := range ranking {
		e.Members = append(e.Members, p.nodes[one.index].member.ID)
	}
	e.add("overflow", e.Members, overflow)
	e.Members = e.Members[:min(len(e.Members), r.addresses)]
	e.add("addresses", e.Members, fmt.Sprintf("a client is told %d", r.addresses))
	return e
}

// unlimited returns the IDs of the gateways in the order that they had if none was draining, full or over its bound.
func (p *plan) unlimited() []string {
	router := *p.router
	router.bound = 0
	other := plan{router: &router, nodes: slices.Clone(p.nodes), client: p.client, class: slices.Clone(p.class), self: -1}
	for i := range other.nodes {
		other.nodes[i].draining, other.nodes[i].capacity = false, 0
	}
	var ids []string
	for _, one := range other.rank(make([]ranked, 0, len(p.nodes)), len(p.nodes)) {
		ids = append(ids, p.nodes[one.index].member.ID)
	}
	return ids
}

// describe returns what is known of a client, for people.
func (c *Client) describe() string {
	parts := []string{"a client without user"}
	if c.User != "" {
		parts[0] = fmt.Sprintf("the user %q", c.User)
	}
	if c.Addr.IsValid() {
		parts = append(parts, "address "+c.Addr.String())
	}
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		parts = append(parts, fmt.Sprintf("claim %s=%s", name, c.Claims[name]))
	}
	if c.Channel != "" {
		parts = append(parts, fmt.Sprintf("channel %q", c.Channel))
	}
	return strings.Join(parts, ", ")
}

// describe returns for which clients a rule is.
func (w *When) describe() string {
	var parts []string
	if len(w.Prefixes) > 0 {
		parts = append(parts, fmt.Sprintf("an address in %v", w.Prefixes))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Claims)) {
		if value := w.Claims[name]; value == "" {
			parts = append(parts, "no claim "+name)
		} else {
			parts = append(parts, fmt.Sprintf("the claim %s=%s", name, value))
		}
	}
	if len(parts) == 0 {
		return "all clients"
	}
	return "clients with " + strings.Join(parts, " and ")
}

func (p *plan) explainRequire(e *Explanation) {
	for i := range p.router.require {
		rule := &p.router.require[i]
		name := fmt.Sprintf("require %q", rule.name)
		if !p.exclude(rule) {
			e.add(name, p.left(), "is for "+rule.when.describe()+" only: this client is none of them")
			continue
		}
		var buf [MaxLabels]label
		wanted, _ := rule.labels.resolve(&buf, p.client)
		e.add(name, p.left(), fmt.Sprintf("is for %s: gateways must have %v", rule.when.describe(), wanted))
	}
}

func (p *plan) explainCanary(e *Explanation) {
	c := p.router.canary
	if c == nil {
		return
	}
	p.divide(c)
	why := fmt.Sprintf("the user is not among the %g %%: gateways with %v come last", 100*c.share, c.labels)
	switch {
	case p.client.User == "":
		why = fmt.Sprintf("a client without user is never in it: gateways with %v come last", c.labels)
	case c.contains(p.client.User):
		why = fmt.Sprintf("the user is among the %g %%: gateways with %v come first", 100*c.share, c.labels)
	}
	e.add(fmt.Sprintf("canary %q", c.name), p.left(), why)
}

func (p *plan) explainPrefer(e *Explanation) {
	for i := range p.router.prefer {
		rule := &p.router.prefer[i]
		name := fmt.Sprintf("prefer %q", rule.name)
		if p.order(rule) {
			var orders []string
			for _, labels := range rule.order {
				var buf [MaxLabels]label
				if wanted, missing := labels.resolve(&buf, p.client); !missing {
					orders = append(orders, wanted.String())
				}
			}
			e.add(name, p.left(), fmt.Sprintf("is for %s: first %s, then all others", rule.when.describe(), strings.Join(orders, ", then ")))
			return // only the first one applies
		}
		why := "is for " + rule.when.describe() + " only: this client is none of them"
		if rule.when.matches(p.client) {
			why = "wants claims that the client does not have"
		}
		e.add(name, p.left(), why)
	}
}

// policy returns by what gateways of a class are ordered, and why.
func (p *plan) policy() (rule, why string) {
	switch _, hashed := p.router.key(p.client); {
	case p.router.policy == LeastLoaded:
		return "least_loaded", "the better of two random ones, by sessions and weight"
	case !hashed:
		return "least_loaded", "the client has no user, so the better of two random ones, by sessions and weight"
	case p.router.policy == ByChannel && p.client.Channel != "":
		return "channel", fmt.Sprintf("the best hash of the group %q, by weight", p.router.Group(p.client.Channel))
	case p.router.policy == ByChannel:
		return "user", "the client has no channel, so the best hash of the user, by weight"
	}
	return "user", "the best hash of the user, by weight"
}

// explainOverflow returns which gateways come later than their hash says, or not at all.
func (p *plan) explainOverflow() string {
	var parts []string
	_, hashed := p.router.key(p.client)
	for i := range p.nodes {
		n := &p.nodes[i]
		switch lane := p.lane(i, hashed && p.router.bound > 0); {
		case lane == noLane:
		case lane >= drainingLane:
			parts = append(parts, n.member.ID+" is draining")
		case lane >= fullLane:
			parts = append(parts, fmt.Sprintf("%s is full: %d sessions of %d", n.member.ID, n.sessions, n.capacity))
		case lane&overBound != 0:
			parts = append(parts, fmt.Sprintf("%s is over its bound: %d sessions, its fair share is %.1f", n.member.ID, n.sessions,
				p.groups[p.class[i]].share(n.weight, 0)))
		}
	}
	if len(parts) == 0 {
		return "no gateway is draining, full or over its bound"
	}
	return strings.Join(parts, "; ")
}
