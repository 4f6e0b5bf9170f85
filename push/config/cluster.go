package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push/cluster"
)

// Cluster says which part a node has in a cluster. All nodes of a cluster have the same namespaces, placement, route and rebind.
type Cluster struct {
	// Name is the same for all nodes of the cluster. Nodes with another name are not heard. Without a name, the node is in no cluster.
	Name string `yaml:"name"`
	// Node is the ID of this node. No other node of the cluster has it. Empty: the name of the host and the port on which the node listens. A node that
	// keeps its ID when it starts again gets the same clients and channels again.
	Node string `yaml:"node"`
	// Labels are what placement and routes choose this node by.
	Labels cluster.Labels `yaml:"labels"`
	// Weight is this node's share of clients and channels, beside the weights of the others: 1 to [cluster.MaxWeight].
	Weight int `yaml:"weight"`
	// Advertise says where others find this node.
	Advertise Advertise `yaml:"advertise"`
	// Discovery says how the nodes find each other.
	Discovery Discovery `yaml:"discovery"`
	// Link configures the connections between hubs and gateways.
	Link Link `yaml:"link"`
	// Placement says which hub has which channels.
	Placement Placement `yaml:"placement"`
	// Route says to which gateways clients are sent.
	Route Route `yaml:"route"`
	// Rebind says how clients move that are connected when the cluster changes.
	Rebind Rebind `yaml:"rebind"`
}

// Advertise says where others find a node. What is empty is the address on which the node listens, with the name of the host if that is all addresses.
type Advertise struct {
	// Public is the URL for clients, with http, https, ws or wss.
	Public string `yaml:"public"`
	// Link is the address for gateways: host:port, or unix:/path.
	Link string `yaml:"link"`
}

// DiscoveryKind is a way in which the nodes of a cluster find each other.
type DiscoveryKind string

// The kinds.
const (
	DiscoverByBroker    DiscoveryKind = "broker"    // leases of the broker
	DiscoverStatic      DiscoveryKind = "static"    // a list of hubs
	DiscoverByDNS       DiscoveryKind = "dns"       // the address records of hubs, or their service records
	DiscoverByEtcd      DiscoveryKind = "etcd"      // leases of etcd
	DiscoverByZooKeeper DiscoveryKind = "zookeeper" // ephemeral nodes of ZooKeeper
)

// UnmarshalText accepts the kinds.
func (k *DiscoveryKind) UnmarshalText(text []byte) error {
	return oneOf(k, text, "kind of discovery", DiscoverByBroker, DiscoverStatic, DiscoverByDNS, DiscoverByEtcd, DiscoverByZooKeeper)
}

// Discovery says how the nodes of a cluster find each other.
type Discovery struct {
	// Kind is the way.
	Kind DiscoveryKind `yaml:"kind"`
	// Addresses are, with [DiscoverByBroker], the hubs that a gateway asks first; with [DiscoverStatic] all hubs; with [DiscoverByDNS] names with ports, or
	// service names that begin with an underscore; otherwise the servers of the registry.
	Addresses []string `yaml:"addresses"`
	// Service is the name of the cluster's folder in etcd or ZooKeeper.
	Service string `yaml:"service"`
}

// Link configures the connections between hubs and gateways.
type Link struct {
	// Listen is the address for gateways, "host:port" or "unix:/path". Empty: there is none.
	Listen string `yaml:"listen"`
	// Connections is how many connections a gateway has to a hub: 1 to 64.
	Connections int `yaml:"connections"`
	// Secret is what gateways and hubs both know. SecretFile is the path of a file that contains it; white space at its end does not count.
	Secret     Secret `yaml:"secret"`
	SecretFile string `yaml:"secret_file"`
	// TLS is the certificate of a hub, or the one that a gateway shows to hubs.
	TLS TLS `yaml:"tls"`
	// CA is the path of a PEM file with the certificates that sign those of hubs. A gateway with one uses TLS.
	CA string `yaml:"ca"`
}

// Placement says which hub has which channels; see package cluster.
type Placement struct {
	// Policy chooses among the hubs.
	Policy cluster.PlacementPolicy `yaml:"policy"`
	// ZoneLabel is the label that the policy zone compares.
	ZoneLabel string `yaml:"zone_label"`
	// Pinned has, by namespace, labels that the hubs of the namespace must have. Each namespace is configured.
	Pinned map[string]cluster.Labels `yaml:"pinned"`
}

// Rules returns the placement as a value of package cluster.
func (p *Placement) Rules() *cluster.Placement {
	return &cluster.Placement{Policy: p.Policy, ZoneLabel: p.ZoneLabel, Pinned: p.Pinned}
}

// Route says to which gateways clients are sent; see package cluster.
type Route struct {
	// Policy orders the gateways among which the rules make no difference.
	Policy cluster.Policy `yaml:"policy"`
	// Require are rules that hold whatever happens.
	Require []Require `yaml:"require"`
	// Canary sends a share of the users to other gateways.
	Canary Canary `yaml:"canary"`
	// Prefer orders gateways by labels.
	Prefer []Prefer `yaml:"prefer"`
	// Groups are groups of channels, for the policy channel.
	Groups []Group `yaml:"groups"`
	// Bound is how many times its fair share of sessions a gateway may have before a client of the policies user and channel gets the next one: above 1; 0: no
	// bound.
	Bound Ratio `yaml:"bound"`
	// Addresses is how many gateways a client is told: 1 to [cluster.MaxAddresses].
	Addresses int `yaml:"addresses"`
}

// Require is a rule for the labels of the gateways of some clients.
type Require struct {
	// Name is the name of the rule in explanations.
	Name string `yaml:"name"`
	// Prefixes and Claims say which clients the rule is for: networks of their addresses, and claims of their tokens. Empty: all.
	Prefixes []string       `yaml:"prefixes"`
	Claims   cluster.Labels `yaml:"claims"`
	// Labels are what the gateways must have.
	Labels cluster.Labels `yaml:"labels"`
}

// Canary sends a share of the users to gateways with given labels. Without labels there is none.
type Canary struct {
	// Name is the name of the canary: one with another name has other users.
	Name string `yaml:"name"`
	// Share is the share of the users, from 0 to 1.
	Share Ratio `yaml:"share"`
	// Labels are what the gateways of these users have.
	Labels cluster.Labels `yaml:"labels"`
}

// Prefer is an order of gateways by labels, for some clients.
type Prefer struct {
	// Name is the name of the rule in explanations.
	Name string `yaml:"name"`
	// Prefixes and Claims say which clients the rule is for, as in [Require].
	Prefixes []string       `yaml:"prefixes"`
	Claims   cluster.Labels `yaml:"claims"`
	// Order has the labels of the gateways, the most preferred first.
	Order []cluster.Labels `yaml:"order"`
}

// Group is a group of channels whose clients belong together.
type Group struct {
	// Name is the name of the group.
	Name string `yaml:"name"`
	// Channels are names or patterns, in which each * stands for any number of characters.
	Channels []string `yaml:"channels"`
}

// Rebind says how clients move when the cluster changes.
type Rebind struct {
	// Rate is how many clients a gateway moves in a second: 1 to [cluster.MaxRebindRate]; 0: none, ever.
	Rate int `yaml:"rate"`
	// Skew is how many times its fair share of clients a gateway may have before clients move because of that: above 1, and at least the bound of the
	// route.
	Skew Ratio `yaml:"skew"`
	// Cooldown is for how long a client stays where it is after it has connected.
	Cooldown Duration `yaml:"cooldown"`
}

// Rules returns the route as a value of package cluster. The error is that of a prefix.
func (t *Route) Rules() (*cluster.Rules, error) {
	out := &cluster.Rules{Policy: t.Policy, Bound: float64(t.Bound), Addresses: t.Addresses}
	if t.Bound == 0 {
		out.Bound = -1
	}
	var errs []error
	when := func(key string, i int, prefixes []string, claims cluster.Labels) cluster.When {
		w := cluster.When{Claims: claims}
		for _, text := range prefixes {
			p, err := parsePrefix(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: prefixes: %w", key, i, err))
				continue
			}
			w.Prefixes = append(w.Prefixes, p)
		}
		return w
	}
	for i, r := range t.Require {
		out.Require = append(out.Require, cluster.Require{Name: r.Name, When: when("require", i, r.Prefixes, r.Claims), Labels: r.Labels})
	}
	for i, p := range t.Prefer {
		out.Prefer = append(out.Prefer, cluster.Prefer{Name: p.Name, When: when("prefer", i, p.Prefixes, p.Claims), Order: p.Order})
	}
	for _, g := range t.Groups {
		out.Groups = append(out.Groups, cluster.Group{Name: g.Name, Channels: g.Channels})
	}
	if c := t.Canary; len(c.Labels) > 0 {
		out.Canary = &cluster.Canary{Name: c.Name, Share: float64(c.Share), Labels: c.Labels}
	}
	return out, errors.Join(errs...)
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%s is neither an address nor a network: use 10.0.0.1 or 10.0.0.0/8", quote(text))
	}
	return p, nil
}

func defaultCluster() Cluster {
	return Cluster{
		Labels:    cluster.Labels{},
		Weight:    cluster.DefaultWeight,
		Discovery: Discovery{Kind: DiscoverByBroker, Addresses: []string{}, Service: "/sluice"},
		Link:      Link{Connections: 2},
		Placement: Placement{ZoneLabel: cluster.ZoneLabel, Pinned: map[string]cluster.Labels{}},
		Route: Route{
			Require: []Require{}, Prefer: []Prefer{}, Groups: []Group{}, Canary: Canary{Labels: cluster.Labels{}},
			Bound: cluster.DefaultBound, Addresses: cluster.DefaultAddresses,
		},
		Rebind: Rebind{Rate: cluster.DefaultRebindRate, Skew: cluster.DefaultSkew, Cooldown: Duration(cluster.DefaultRebindCooldown)},
	}
}

// Router returns a Router for the rules of the route. There is no error if the configuration is valid.
func (c *Cluster) Router() (*cluster.Router, error) {
	rules, err := c.Route.Rules()
	if err != nil {
		return nil, err
	}
	return cluster.NewRouter(rules)
}

// checkCluster reports problems of the role and the cluster.
func (c *Config) checkCluster(r *report) {
	n := &c.Cluster
	isHub, isGateway := c.Role == cluster.Hub, c.Role == cluster.Gateway
	switch {
	case n.Name == "" && (isHub || isGateway):
		r.invalid("cluster.name", "a node with the role %v is part of a cluster: give the cluster a name", c.Role)
	case n.Name == "" && n.Link.Listen != "":
		r.invalid("cluster.link.listen", "gateways connect here, so the node is part of a cluster: set cluster.name")
	}
	switch {
	case isHub && n.Link.Listen == "":
		r.invalid("cluster.link.listen", "a hub serves gateways: say where they connect, such as :7000")
	case isGateway && n.Link.Listen != "":
		r.invalid("cluster.link.listen", "a gateway serves no other gateways: leave it out")
	}
	if isGateway && c.Broker.NATS.URL != "" {
		r.invalid("broker.nats.url", "a gateway asks hubs and has no broker: leave it out")
	}
	c.checkDiscovery(r)
	n.Link.check(r)
	checkRange(r, "cluster.weight", n.Weight, 1, cluster.MaxWeight)
	member := cluster.Member{
		ID: "node", Cluster: n.Name, Role: c.Role, Public: n.Advertise.Public, Link: n.Advertise.Link, Labels: n.Labels,
	}
	if n.Node != "" {
		member.ID = n.Node
	}
	if err := member.Check(); err != nil {
		r.invalid("cluster", "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("%v %q: ", cluster.ErrMember, member.ID)))
	}
	n.checkRules(r)
	for _, name := range slices.Sorted(maps.Keys(n.Placement.Pinned)) {
		if !slices.ContainsFunc(c.Namespaces, func(ns Namespace) bool { return ns.Name == name }) {
			r.invalid("cluster.placement.pinned", "there is no namespace %s: use the name of one in namespaces", quote(name))
		}
	}
}

func (c *Config) checkDiscovery(r *report) {
	d := &c.Cluster.Discovery
	const key = "cluster.discovery.addresses"
	if len(d.Addresses) == 0 {
		switch {
		case c.Cluster.Name == "":
		case d.Kind == DiscoverByBroker && c.Role != cluster.Gateway:
		case d.Kind == DiscoverByEtcd || d.Kind == DiscoverByZooKeeper:
			r.invalid(key, "the servers of %s are missing: use host:port", d.Kind)
		case d.Kind == DiscoverByDNS:
			r.invalid(key, "the name to look up is missing: use host:port, or _service._proto.domain")
		default:
			r.invalid(key, "the addresses of hubs are missing: use host:port")
		}
	}
	for i, a := range d.Addresses {
		entry := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case d.Kind == DiscoverByDNS && strings.HasPrefix(a, "_"):
		case d.Kind == DiscoverByBroker || d.Kind == DiscoverStatic:
			checkLinkAddress(r, entry, a)
		default:
			checkAddress(r, entry, a)
		}
	}
	if d.Kind == DiscoverByDNS && len(d.Addresses) > 1 {
		r.invalid(key, "one name is looked up, not %d", len(d.Addresses))
	}
	if d.Service == "" {
		r.invalid("cluster.discovery.service", "the name is empty: use /sluice")
	}
}

func checkLinkAddress(r *report, key, address string) {
	if path, isUnix := strings.CutPrefix(address, UnixPrefix); isUnix {
		checkSocketPath(r, key, path)
		return
	}
	checkAddress(r, key, address)
}

func checkSocketPath(r *report, key, path string) {
	switch {
	case path == "":
		r.invalid(key, "the path of the Unix socket is missing: use %s/path", UnixPrefix)
	case len(path) > mostSocketPath:
		r.invalid(key, "the path of the Unix socket has %d bytes, at most %d are possible", len(path), mostSocketPath)
	}
}

const mostLinkConns = 64

func (l *Link) check(r *report) {
	checkRange(r, "cluster.link.connections", l.Connections, 1, mostLinkConns)
	l.TLS.check(r, "cluster.link.tls")
	if l.Secret != "" && l.SecretFile != "" {
		r.invalid("cluster.link.secret_file", "not allowed with secret: use one of them")
	}
	if l.Listen == "" {
		return
	}
	checkLinkAddress(r, "cluster.link.listen", l.Listen)
	host, _, err := net.SplitHostPort(l.Listen)
	ip := net.ParseIP(host)
	isLocal := err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
	if !isLocal && l.Secret == "" && l.SecretFile == "" && !l.TLS.RequireClient {
		r.invalid("cluster.link.listen", "%s can be reached from other machines, and any program could be a gateway: set cluster.link.secret_file, or have "+
			"gateways show certificates with cluster.link.tls.require_client", quote(l.Listen))
	}
}

func (c *Cluster) checkRules(r *report) {
	if _, err := cluster.NewPlacer(c.Placement.Rules()); err != nil {
		r.invalid("cluster.placement", "%s", withoutPrefix(err, "cluster: placement: "))
	}
	checkRange(r, "cluster.route.addresses", c.Route.Addresses, 1, cluster.MaxAddresses)
	if _, err := c.Router(); err != nil {
		r.invalid("cluster.route", "%s", withoutPrefix(err, "cluster: route: "))
	}
	checkRange(r, "cluster.rebind.rate", c.Rebind.Rate, 0, cluster.MaxRebindRate)
	checkRange(r, "cluster.rebind.cooldown", c.Rebind.Cooldown, 0, Duration(24*time.Hour))
	if c.Rebind.Skew <= 1 || c.Rebind.Skew > cluster.MaxBound || c.Rebind.Skew < c.Route.Bound {
		r.invalid("cluster.rebind.skew", "%v is out of range: use more than 1, at most %v, and not less than cluster.route.bound, %v", c.Rebind.Skew,
			cluster.MaxBound, c.Route.Bound)
	}
}

// withoutPrefix returns the lines of an error in one line, each without a prefix.
func withoutPrefix(err error, prefix string) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, prefix)
	}
	return strings.Join(lines, "; ")
}

// Ratio is a number such as 1.25.
type Ratio float64

// UnmarshalText accepts a decimal number.
func (x *Ratio) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || v != v || v > 1e6 || v < -1e6 {
		return fmt.Errorf("%s is not a number such as 1.25", quote(string(text)))
	}
	*x = Ratio(v)
	return nil
}

// MarshalText returns the number.
func (x Ratio) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(x), 'g', -1, 64), nil
}
