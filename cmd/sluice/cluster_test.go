package main_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// testCluster is a NATS server, hubs that read from it, and gateways.
type testCluster struct {
	t        *testing.T
	nats     *natsProcess
	hubs     []*clusterNode
	gateways []*clusterNode
	outages  *outages // of gateways
}

// clusterPlan says what startCluster starts.
type clusterPlan struct {
	config   string                 // of all nodes, without the settings that differ and those of the broker
	hubs     int                    // 0: 2
	gateways int                    // 0: 2
	isProxy  bool                   // links go through proxies
	program  func() (string, error) // nil: the one with the race detector
	args     []string               // more arguments of the first gateway
	isSecure bool                   // clients need tokens
	settings string                 // more settings in the block cluster of all nodes, such as "rebind: {rate: 10}"
}

// clusterNode is a hub or a gateway. When it is started again, it has the same addresses.
type clusterNode struct {
	t       *testing.T
	path    string // of the program
	args    []string
	address string         // for clients; of a hub for gateways
	proxy   *network.Proxy // in front of address, which is what a hub advertises then; nil: none
	isUp    atomic.Bool
	*process
}

// linkSecret is the secret of links.
const linkSecret = "a secret that only tests know"

// startCluster starts a cluster and returns when its gateways serve clients.
func startCluster(t *testing.T, plan *clusterPlan) *testCluster {
	t.Helper()
	c := &testCluster{t: t, outages: newOutages(), nats: &natsProcess{t: t, address: freePort(t), store: t.TempDir()}}
	c.nats.start()
	program := plan.program
	if program == nil {
		program = binary
	}
	path, err := program()
	must(t, err)
	var links []string
	for i := range orTwo(plan.hubs) {
		n := &clusterNode{t: t, path: path, address: freePort(t)}
		link := n.address
		if plan.isProxy {
			n.proxy, err = network.Listen("", n.address, network.Conditions{Seed: uint64(i)}) //nolint:gosec // small
			must(t, err)
			t.Cleanup(func() { _ = n.proxy.Close() })
			link = n.proxy.Addr().String()
		}
		links = append(links, link)
		n.args = nodeArgs(t, plan.config, fmt.Sprintf(`
role: hub
listen: ""
broker: {kind: nats, nats: {url: "nats://%s"}}
cluster: {name: test, node: hub%d, advertise: {link: %q}, link: {listen: %q, secret: %q}, %s}
`, c.nats.address, i, link, n.address, linkSecret, plan.settings))
		c.hubs = append(c.hubs, n)
	}
	for i := range orTwo(plan.gateways) {
		n := &clusterNode{t: t, path: path, address: freePort(t)}
		n.args = nodeArgs(t, plan.config, fmt.Sprintf(`
role: gateway
listen: %q
cluster: {name: test, node: gateway%d, discovery: {addresses: %s}, link: {secret: %q}, %s}
`, n.address, i, yamlList(links), linkSecret, plan.settings))
		if !plan.isSecure {
			n.args = append(n.args, "--insecure")
		}
		if i == 0 {
			n.args = append(n.args, plan.args...)
		}
		c.gateways = append(c.gateways, n)
	}
	nodes := slices.Concat(c.hubs, c.gateways)
	for _, n := range nodes {
		n.launch()
	}
	for _, n := range nodes {
		n.awaitUp()
	}
	return c
}

func orTwo(n int) int {
	if n == 0 {
		return 2
	}
	return n
}

// yamlList returns a list of texts in YAML.
func yamlList(texts []string) string {
	var quoted []string
	for _, s := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// nodeArgs writes the configuration of a node, which is in several parts, to a file, and returns the arguments of the program. If the parts do not say the
// internal address, the kernel chooses it.
func nodeArgs(t *testing.T, parts ...string) []string {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "sluice.yaml")
	text := strings.Join(parts, "\n") + fmt.Sprintf("\ndata: %q\n", filepath.Join(folder, "data"))
	if !strings.Contains(text, "internal:") {
		text += "internal: \"127.0.0.1:0\"\n"
	}
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return []string{"serve", "--config", file}
}

// launch starts the node and does not wait for it.
func (n *clusterNode) launch() {
	n.t.Helper()
	n.process = launch(n.t, exec.Command(n.path, n.args...))
}

// awaitUp waits until the node serves.
func (n *clusterNode) awaitUp() {
	n.t.Helper()
	testwait.Receive(n.t, n.greeted) // or the node has ended
	if n.internal == "" {
		n.t.Fatalf("the node did not start:\n%s", n.stderr)
	}
	n.isUp.Store(true)
}

// start starts the node again and returns when it serves.
func (n *clusterNode) start() {
	n.t.Helper()
	n.launch()
	n.awaitUp()
}

// kill kills the present process of the node, as kill -9 does.
func (n *clusterNode) kill() { n.process.kill() }

// killGateway kills a gateway, as kill -9 does. Its clients may connect to others at once.
func (c *testCluster) killGateway(n *clusterNode) { c.takeDown(n, n.kill) }

// takeDown ends a gateway.
func (c *testCluster) takeDown(n *clusterNode, end func()) {
	n.isUp.Store(false) // before the outage begins: a client that knows of the outage connects to another gateway
	c.outages.begin()
	c.outages.end()
	end()
}

// dialer returns the function that makes the connections of one client: to the gateways that are up, in turn, beginning with a given one.
func (c *testCluster) dialer(first int) func(ctx context.Context) (net.Conn, error) {
	turn := first
	return func(ctx context.Context) (net.Conn, error) {
		for range c.gateways {
			n := c.gateways[turn%len(c.gateways)]
			if turn++; n.isUp.Load() {
				return new(net.Dialer).DialContext(ctx, "tcp", n.address)
			}
		}
		return nil, errors.New("no gateway is up")
	}
}

// clients returns clients of WebSocket and SSE that are spread over the gateways. They connect to another gateway whenever their connection ends.
func (c *testCluster) clients(websockets, events int, want map[string]*expectation) []*feedClient {
	var all []*feedClient
	for i := range websockets + events {
		name, transport := fmt.Sprintf("WebSocket client %d", i), overWebSocket
		if i >= websockets {
			name, transport = fmt.Sprintf("SSE client %d", i), overSSE
		}
		client := newFeedClient(name, c.gateways[0].address, transport, want)
		client.balance, client.outages, client.isPatient = c.dialer(i), c.outages, true
		all = append(all, client)
	}
	return all
}
