package main_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// linkConfig is what the nodes of these tests have in common.
const linkConfig = `
ping: {interval: 60s, timeout: 50s}
namespaces:
  - {name: ticks, mode: stream, partitions: 8, history: {size: 1000, age: 1h}}
`

// startHub starts a hub and returns when it serves gateways. link has the settings cluster.link besides the address.
func startHub(t *testing.T, broker, name, link string) *process {
	t.Helper()
	path, err := binary()
	must(t, err)
	p := launch(t, exec.Command(path, nodeArgs(t, linkConfig, "broker: "+broker, fmt.Sprintf(`
role: hub
listen: ""
cluster: {name: %s, link: {listen: "127.0.0.1:0", %s}}
`, name, link))...))
	p.greeting()
	if p.link == "" {
		t.Fatalf("the hub did not start:\n%s", p.stderr)
	}
	return p
}

// waitingNode is a node that may not be ready yet. The addresses of its process are unknown until it is.
type waitingNode struct {
	*process
	ready string // the URL of the health check
}

// launchGateway starts a gateway, which may wait for hubs. broker is the kind of the hubs, and cluster has the settings of the block besides the name.
func launchGateway(t *testing.T, broker, name, cluster string) *waitingNode {
	t.Helper()
	path, err := binary()
	must(t, err)
	internal := freePort(t)
	args := nodeArgs(t, linkConfig, fmt.Sprintf(`
role: gateway
listen: "127.0.0.1:0"
internal: %q
broker: {kind: %s}
cluster: {name: %s, %s}
`, internal, broker, name, cluster))
	n := &waitingNode{launch(t, exec.Command(path, append(args, "--insecure")...)), "http://" + internal + "/health/ready"}
	testwait.True(t, "the gateway answers the health check", func() bool {
		return answers(n.ready, http.StatusOK, "ready") || answers(n.ready, http.StatusServiceUnavailable, "not ready")
	})
	return n
}

// awaitServing waits until the gateway serves clients.
func (n *waitingNode) awaitServing() {
	n.t.Helper()
	n.greeting()
	if n.public == "" {
		n.t.Fatalf("the gateway did not start:\n%s", n.stderr)
	}
	n.awaitReady()
}

// expectDelivery fails the test unless what is published at one gateway reaches a client of another one, in many channels.
func expectDelivery(t *testing.T, from, to *process) {
	t.Helper()
	const channels = 16
	want := map[string]*expectation{}
	for i := range channels {
		want[fmt.Sprintf("ticks:%d", i)] = &expectation{count: 1}
	}
	watching := startClients(t, newFeedClient("the client", to.public, overWebSocket, want))
	for name := range want {
		if err := from.try("publish", fmt.Sprintf(`{"channel":%q,"data":1}`, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	watching.awaitComplete()
}

// TestClusterTLS: hubs and gateways show each other certificates. A gateway without one, or that does not trust the hub's, does not become ready, and says
// why.
func TestClusterTLS(t *testing.T) {
	t.Parallel()
	ofHub, _ := writeCertificate(t)
	ofGateway, _ := writeCertificate(t)
	other, _ := writeCertificate(t)
	hub := startHub(t, "{kind: memory}", "test", fmt.Sprintf("tls: {cert: %q, key: %q, client_ca: %q, require_client: true}", ofHub, ofHub, ofGateway))
	gateway := func(link string) *waitingNode {
		return launchGateway(t, "memory", "test", fmt.Sprintf("discovery: {addresses: [%q]}, link: {%s}", hub.link, link))
	}
	trusted := gateway(fmt.Sprintf("ca: %q, tls: {cert: %q, key: %q}", ofHub, ofGateway, ofGateway))
	trusted.awaitServing()
	expectDelivery(t, trusted.process, trusted.process)
	for name, tt := range map[string]struct{ link, says string }{
		"no certificate":           {fmt.Sprintf("ca: %q", ofHub), "certificate required"},
		"another certificate":      {fmt.Sprintf("ca: %q, tls: {cert: %q, key: %q}", ofHub, other, other), "tls: "},
		"it does not know the hub": {fmt.Sprintf("ca: %q, tls: {cert: %q, key: %q}", other, ofGateway, ofGateway), "certificate signed by unknown authority"},
		"no TLS":                   {"connections: 2", "hub " + hub.link},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gateway(tt.link).expectRefusal(t, tt.says)
		})
	}
}

// expectRefusal fails the test unless a gateway that no hub accepts says so, seldom, and is not ready.
func (n *waitingNode) expectRefusal(t *testing.T, says string) {
	t.Helper()
	const attempts = 2
	var log string
	testwait.True(t, "the gateway says why it is not ready", func() bool {
		log = n.stderr.String()
		return strings.Count(log, "broker unreachable, retrying") >= attempts
	})
	for line := range strings.Lines(log) {
		if strings.Contains(line, "broker unreachable, retrying") && !strings.Contains(line, says) {
			t.Errorf("it does not say %q: %s", says, line)
		}
	}
	if lines := strings.Count(log, "\n"); lines > 3*attempts { // besides the attempts one for the discovery, and one for each of two hubs
		t.Errorf("it says it in %d lines:\n%s", lines, log)
	}
	if !answers(n.ready, http.StatusServiceUnavailable, "not ready") {
		t.Error("it is ready")
	}
}

// TestClusterSecret: a gateway with another secret than the hubs, or of another cluster, does not become ready, and says why.
func TestClusterSecret(t *testing.T) {
	t.Parallel()
	hub := startHub(t, "{kind: memory}", "test", "secret: right")
	for name, tt := range map[string]struct{ name, discovery, secret, says string }{
		"another secret":         {"test", "broker", "wrong", "does not accept this secret"},
		"another secret, static": {"test", "static", "wrong", "does not accept this secret"},
		"another cluster":        {"other", "broker", "right", `belongs to cluster \"test\"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			launchGateway(t, "memory", tt.name, fmt.Sprintf("discovery: {kind: %s, addresses: [%q]}, link: {secret: %s}", tt.discovery, hub.link, tt.secret)).
				expectRefusal(t, tt.says)
		})
	}
}

// TestClusterWaitsForHubs: while no hub is up, a gateway is alive but not ready. When one is, the gateway serves clients.
func TestClusterWaitsForHubs(t *testing.T) {
	t.Parallel()
	for _, discovery := range []string{"broker", "static"} {
		t.Run(discovery, func(t *testing.T) {
			t.Parallel()
			path, err := binary()
			must(t, err)
			link, absent := freePort(t), freePort(t)
			gateway := launchGateway(t, "memory", "test", fmt.Sprintf("discovery: {kind: %s, addresses: [%q, %q]}, link: {secret: %s}", discovery, absent, link, "s"))
			gateway.expectRefusal(t, "connection refused")
			launch(t, exec.Command(path, nodeArgs(t, linkConfig, fmt.Sprintf(`
role: hub
listen: ""
broker: {kind: memory}
cluster: {name: test, link: {listen: %q, secret: s}}
`, link))...))
			gateway.awaitServing()
			expectDelivery(t, gateway.process, gateway.process)
		})
	}
}

// TestClusterNames: nodes of another cluster that have the same broker are not heard.
func TestClusterNames(t *testing.T) {
	t.Parallel()
	server := &natsProcess{t: t, address: freePort(t), store: t.TempDir()}
	server.start()
	broker := fmt.Sprintf("{kind: nats, nats: {url: \"nats://%s\"}}", server.address)
	watched := freePort(t)
	proxy, err := network.Listen("", watched, network.Conditions{})
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	path, err := binary()
	must(t, err)
	other := launch(t, exec.Command(path, nodeArgs(t, linkConfig, "broker: "+broker, fmt.Sprintf(`
role: hub
listen: ""
cluster: {name: other, link: {listen: %q, secret: s}, advertise: {link: %q}}
`, watched, proxy.Addr()))...))
	other.greeting()
	ofOther := launchGateway(t, "nats", "other", fmt.Sprintf("discovery: {addresses: [%q]}, link: {secret: s, connections: 1}", watched))
	ofOther.awaitServing()
	testwait.True(t, "the other cluster knows its hub", func() bool { return proxy.Stats().Accepted > 0 })

	before := proxy.Stats().Accepted
	hub := startHub(t, broker, "test", "secret: s")
	gateway := launchGateway(t, "nats", "test", fmt.Sprintf("discovery: {addresses: [%q]}, link: {secret: s}", hub.link))
	gateway.awaitServing()
	expectDelivery(t, gateway.process, gateway.process)
	if after := proxy.Stats().Accepted; after != before { // all are of the other gateway
		t.Errorf("the hub of the other cluster had %d connections, then %d", before, after)
	}
	expectDelivery(t, ofOther.process, gateway.process) // they share the broker
}

// TestClusterStatic: gateways that know the hubs from a list use all of them, and go on with the second hub when the first is killed.
func TestClusterStatic(t *testing.T) {
	t.Parallel()
	server := &natsProcess{t: t, address: freePort(t), store: t.TempDir()}
	server.start()
	broker := fmt.Sprintf("{kind: nats, nats: {url: \"nats://%s\"}}", server.address)
	hubs := []*process{startHub(t, broker, "test", "secret: s"), startHub(t, broker, "test", "secret: s")}
	var gateways []*waitingNode
	for range 2 {
		gateways = append(gateways, launchGateway(t, "nats", "test", fmt.Sprintf("discovery: {kind: static, addresses: [%q, %q]}, link: {secret: s}", hubs[0].link, hubs[1].link)))
	}
	for _, g := range gateways {
		g.awaitServing()
	}
	expectDelivery(t, gateways[0].process, gateways[1].process)
	epochs := map[any]bool{}
	for i := range 16 {
		epochs[gateways[0].api("history", map[string]any{"channel": fmt.Sprintf("ticks:%d", i)})["epoch"]] = true
	}
	if len(epochs) < 2 {
		t.Errorf("the epochs are %v, but the channels are in several partitions", epochs)
	}
	hubs[0].kill()
	expectDelivery(t, gateways[1].process, gateways[0].process)
}
