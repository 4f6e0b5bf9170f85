// Package cluster runs clusters of the command sluice: a NATS server, hubs and gateways, each a process of its own.
package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/node"
)

// secret is what hubs and gateways both know.
const secret = "of-a-cluster-that-lives-for-minutes"

// Programs are the commands that a cluster consists of.
type Programs struct {
	Sluice, NATS string // paths
}

// Build returns the programs, and a function that removes them. The command sluice is built unless there is a path already.
func Build(ctx context.Context, sluice string) (*Programs, func(), error) {
	binary, remove, err := node.Build(ctx, sluice)
	if err != nil {
		return nil, nil, err
	}
	nats, removeNATS, err := BuildNATS(ctx)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return &Programs{Sluice: binary, NATS: nats}, func() {
		remove()
		removeNATS()
	}, nil
}

// Member is a hub or a gateway. When it is started again, it has the same addresses.
type Member struct {
	*node.Node // nil while it does not run

	program, config string
	flags           []string
	link            string // where a hub listens for gateways
}

// Start starts the member and waits until it is ready.
func (m *Member) Start() error {
	n, err := node.Start(m.program, m.config, m.flags...)
	if err == nil {
		m.Node = n
	}
	return err
}

// Stop ends the member at once, if it runs.
func (m *Member) Stop() {
	if m.Node != nil {
		m.Node.Stop()
		m.Node = nil
	}
}

// Terminate tells the member to end in order, and waits until it has.
func (m *Member) Terminate() error {
	err := m.Node.Terminate()
	if err == nil {
		m.Node = nil
	}
	return err
}

// Plan says what a cluster consists of.
type Plan struct {
	Programs       *Programs
	Config         string // of all nodes, in YAML; it says nothing of role, cluster and broker
	Cluster        string // more settings in the block cluster of all nodes, such as "rebind: {rate: 100}"; may be empty
	Hubs, Gateways int    // how many
}

// Cluster is a NATS server, hubs that read from it, and gateways. Its methods are for one goroutine.
type Cluster struct {
	NATS     *NATS
	Hubs     []*Member
	Gateways []*Member

	plan *Plan
}

// Start starts a cluster and waits until all nodes are ready.
func Start(ctx context.Context, plan *Plan) (*Cluster, error) {
	nats, err := StartNATS(ctx, plan.Programs.NATS)
	if err != nil {
		return nil, err
	}
	c := &Cluster{NATS: nats, plan: plan}
	for range plan.Hubs {
		if err := c.addHub(); err != nil {
			c.Stop()
			return nil, err
		}
	}
	for range plan.Gateways {
		if _, err := c.Join(); err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) addHub() error {
	link, err := freePort()
	if err != nil {
		return err
	}
	hub := c.member(
		fmt.Sprintf("role: hub\nbroker: {kind: nats, nats: {url: \"nats://%s\"}}", c.NATS.Addr),
		fmt.Sprintf("node: hub%d, link: {listen: %q, secret: %q}", len(c.Hubs)+1, link, secret),
	)
	hub.link = link
	hub.flags = append(hub.flags, "--listen", "")
	c.Hubs = append(c.Hubs, hub)
	return hub.Start()
}

// Join starts one gateway more, which may have more settings in its block cluster.
func (c *Cluster) Join(settings ...string) (*Member, error) { return c.join(0, settings...) }

// JoinWith starts one gateway more, which has so many links to each hub.
func (c *Cluster) JoinWith(links int) (*Member, error) { return c.join(links) }

// join starts a gateway with so many links to each hub, or the default of them if that is 0.
func (c *Cluster) join(count int, settings ...string) (*Member, error) {
	public, err := freePort()
	if err != nil {
		return nil, err
	}
	var links []string
	for _, hub := range c.Hubs {
		links = append(links, fmt.Sprintf("%q", hub.link))
	}
	link := fmt.Sprintf("secret: %q", secret)
	if count > 0 {
		link += fmt.Sprintf(", connections: %d", count)
	}
	gateway := c.member("role: gateway", append([]string{
		fmt.Sprintf("node: gateway%d, discovery: {addresses: [%s]}, link: {%s}", len(c.Gateways)+1, strings.Join(links, ", "), link),
	}, settings...)...)
	gateway.flags = append(gateway.flags, "--listen", public)
	c.Gateways = append(c.Gateways, gateway)
	return gateway, gateway.Start()
}

// member returns a node with settings of its own, some of them in the block cluster.
func (c *Cluster) member(config string, settings ...string) *Member {
	block := []string{"name: bench"}
	if c.plan.Cluster != "" {
		block = append(block, c.plan.Cluster)
	}
	block = append(block, settings...)
	return &Member{
		program: c.plan.Programs.Sluice,
		config:  fmt.Sprintf("%s\n%s\ncluster: {%s}\n", c.plan.Config, config, strings.Join(block, ", ")),
	}
}

// Stop ends everything at once.
func (c *Cluster) Stop() {
	for _, m := range slices.Concat(c.Gateways, c.Hubs) {
		m.Stop()
	}
	c.NATS.Stop()
}

// freePort returns an address of the loopback interface at which nothing listens.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
