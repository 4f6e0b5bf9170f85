package clusternode

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse returns a configuration.
func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("config.yaml", []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A hub that was killed leaves its socket file, and listens there again. A file that another hub listens on is left alone.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	link := &config.Link{Listen: "unix:" + path}
	l, err := Listen(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := Listen(t.Context(), link); err == nil || !strings.Contains(err.Error(), "cluster.link.listen") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("listening where another hub does: %v", err)
	}
	if l, err := Listen(t.Context(), &config.Link{}); l != nil || err != nil {
		t.Errorf("without an address: %v, %v", l, err)
	}
}

// What a node announces follows from where it listens, unless the configuration says it.
func TestDescribe(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	everywhere, local := listen(t, "tcp", ":0"), listen(t, "tcp", "127.0.0.1:0")
	socket := listen(t, "unix", filepath.Join(t.TempDir(), "s"))
	_, port, _ := net.SplitHostPort(everywhere.Addr().String())
	_, localPort, _ := net.SplitHostPort(local.Addr().String())
	for name, tt := range map[string]struct {
		text string
		o    Options
		want cluster.Member
	}{
		"open": {
			"cluster: {name: c, labels: {zone: a}, weight: 7}",
			Options{Public: everywhere, Link: local, Capacity: 5, Version: "v"},
			cluster.Member{
				ID: host + "-" + port, Cluster: "c", Public: "http://" + host + ":" + port, Link: local.Addr().String(), Labels: cluster.Labels{"zone": "a"},
				Weight: 7, Capacity: 5, Version: "v",
			},
		},
		"hub": {
			"role: hub\ncluster: {name: c, link: {listen: '127.0.0.1:0'}, advertise: {public: 'https://a.example'}}",
			Options{Link: local},
			cluster.Member{ID: host + "-" + localPort, Cluster: "c", Role: cluster.Hub, Link: local.Addr().String(), Weight: 100},
		},
		"given": {
			"cluster: {name: c, node: n, advertise: {public: 'https://a.example', link: 'b.example:1'}}",
			Options{Public: local, Link: local, PublicTLS: true},
			cluster.Member{ID: "n", Cluster: "c", Public: "https://a.example", Link: "b.example:1", Weight: 100},
		},
		"TLS and a socket": {
			"cluster: {name: c, node: n}",
			Options{Public: local, Link: socket, PublicTLS: true},
			cluster.Member{ID: "n", Cluster: "c", Public: "https://" + local.Addr().String(), Link: "unix:" + socket.Addr().String(), Weight: 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := describe(parse(t, tt.text), &tt.o)
			if err != nil || !got.Equal(&tt.want) {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func set(t *testing.T, list ...cluster.Member) *cluster.Set {
	t.Helper()
	for i := range list {
		list[i].Cluster = "c"
	}
	s, err := cluster.NewSet("c", list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A gateway asks the hubs of the configuration until it knows others, and goes back to them for what belongs to no partition.
func TestPlaces(t *testing.T) {
	p, err := newPlaces(parse(t, `
role: gateway
cluster: {name: c, discovery: {addresses: ["first:1"]}, placement: {pinned: {vip: {tier: vip}}}}
namespaces: [{name: vip}]
`), "me")
	if err != nil {
		t.Fatal(err)
	}
	anything, quotes, vip := broker.Partition{}, broker.Partition{Namespace: "quotes"}, broker.Partition{Namespace: "vip"}
	expect := func(part broker.Partition, want ...string) {
		t.Helper()
		got := p.Hubs(part)
		if part == quotes {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("hubs of %v: %v, want %v", part, got, want)
		}
	}
	expect(anything, "first:1")
	expect(quotes, "first:1")
	expect(vip)

	before := p.Changed()
	p.update(set(t, cluster.Member{ID: "me", Role: cluster.Gateway, Public: "http://me"}))
	select {
	case <-before:
		t.Error("a set without hubs changes where partitions are")
	default:
	}
	expect(quotes, "first:1")

	a, b := cluster.Member{ID: "a", Role: cluster.Hub, Link: "a:1"}, cluster.Member{ID: "b", Role: cluster.Hub, Link: "b:1", Labels: cluster.Labels{"tier": "vip"}}
	p.update(set(t, a, b))
	testwait.Receive(t, before)
	expect(quotes, "a:1", "b:1")
	expect(vip, "b:1")
	if got := p.Hubs(anything); len(got) != 3 || got[2] != "first:1" {
		t.Errorf("hubs of leases: %v, want those of the configuration last", got)
	}
	before = p.Changed()
	a.Sessions = 7
	p.update(set(t, a, b))
	select {
	case <-before:
		t.Error("a number of sessions changes where partitions are")
	default:
	}
	p.update(set(t, a))
	expect(vip)
	p.update(set(t))
	expect(quotes, "a:1")
}

// A secret may be in a file. Without one that was asked for, there are no links.
func TestSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if _, err := readSecret(&config.Link{SecretFile: file}); err == nil || !strings.Contains(err.Error(), "cluster.link.secret_file") {
		t.Errorf("a missing file: %v", err)
	}
	for text, want := range map[string]string{"abc\n": "abc", " \n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readSecret(&config.Link{SecretFile: file}); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if got, err := readSecret(&config.Link{Secret: "x"}); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// crowd is a number of clients of which nothing else is known.
type crowd int

func (c crowd) Len() int { return int(c) }

func (crowd) Sessions() iter.Seq[gateway.Session] { return func(func(gateway.Session) bool) {} }

func admit(t *testing.T, n *Node, clients int) {
	t.Helper()
	if err := n.Admit(crowd(clients)); err != nil {
		t.Fatal(err)
	}
}

// losable is a broker whose connection may be lost.
type losable struct {
	broker.Broker
	lost atomic.Bool
}

func (l *losable) Stats() broker.Stats { return broker.Stats{Connected: !l.lost.Load()} }

// A hub and a gateway find each other, and the gateway's broker asks the hub. While the hub has lost its broker, it is passed over, and stores nothing.
func TestHubAndGateway(t *testing.T) {
	ctx := t.Context()
	shared := memory.New(nil)
	defer func() { _ = shared.Close() }()
	if err := shared.Open(ctx, broker.Namespace{Name: "quotes", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	link := listen(t, "tcp", "127.0.0.1:0")
	log := slog.New(slog.DiscardHandler)
	newNode := func(text string, o Options) *Node {
		o.Log = log
		n, err := New(parse(t, text), o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	stop := func(n *Node) {
		if err := n.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}
	h := newNode("role: hub\ncluster: {name: c, node: h, link: {listen: '127.0.0.1:0', secret: s}}", Options{Link: link})
	defer stop(h)
	detached := &losable{Broker: shared}
	if err := h.Join(detached); err != nil {
		t.Fatal(err)
	}
	h.ServeLinks(shared, func(err error) { t.Error(err) })
	admit(t, h, 0)

	other := newNode("cluster: {name: c, node: other}", Options{Public: listen(t, "tcp", "127.0.0.1:0")})
	defer stop(other)
	if err := other.Join(shared); err != nil {
		t.Fatal(err)
	}
	g := newNode("role: gateway\ncluster: {name: c, node: g, discovery: {addresses: ['"+link.Addr().String()+"']}, link: {secret: s}}",
		Options{Public: listen(t, "tcp", "127.0.0.1:0")})
	b, err := g.OpenBroker()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	defer stop(g)
	if err := g.Join(b); err != nil {
		t.Fatal(err)
	}
	if err := g.Known(ctx); err != nil {
		t.Fatal(err)
	}
	admit(t, g, 3)
	testwait.True(t, "the hub knows the gateway and its clients", func() bool {
		m := h.Set().Member("g")
		return m != nil && m.Sessions == 3 && !m.Draining
	})
	testwait.True(t, "the gateway knows the hub", func() bool { return g.Set().Member("h") != nil })
	if err := b.Open(ctx, broker.Namespace{Name: "quotes", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Head(ctx, broker.Partition{Namespace: "quotes"}); err != nil {
		t.Fatal(err)
	}
	if h.Links() == 0 {
		t.Error("the hub has no links")
	}
	checkLost(t, b, detached, other)
	h.Drain()
	testwait.True(t, "the gateway knows that the hub drains", func() bool { return g.Set().Member("h").Draining })
}

// checkLost has the hub h lose its broker, and checks what another node knows of it, and whether it stores anything for a gateway's broker.
func checkLost(t *testing.T, b broker.Broker, detached *losable, other *Node) {
	t.Helper()
	publish := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := b.Publish(ctx, "quotes:a", push.Publication{}, broker.PublishOptions{})
		return err
	}
	testwait.True(t, "another node knows the hub", func() bool {
		m := other.Set().Member("h")
		return m != nil && !m.Draining
	})
	detached.lost.Store(true)
	testwait.True(t, "it knows that the hub is to be passed over", func() bool { return other.Set().Member("h").Draining })
	if err := publish(100 * time.Millisecond); err == nil {
		t.Error("the hub has lost its broker, and publishes")
	}
	detached.lost.Store(false)
	testwait.True(t, "it knows that the hub is back", func() bool { return !other.Set().Member("h").Draining })
	if err := publish(testwait.Bound); err != nil {
		t.Error(err)
	}
}
