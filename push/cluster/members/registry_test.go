package members_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/etcd"
	"github.com/sluice-push/sluice/discovery/zookeeper"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// counting counts the writes to a registry, which fails at times.
type counting struct {
	discovery.Memory
	writes atomic.Int32
	away   atomic.Bool
}

func (c *counting) Register(ctx context.Context, service string, e discovery.Endpoint) (discovery.Registration, error) {
	c.writes.Add(1)
	if c.away.Load() {
		return nil, errAway
	}
	r, err := c.Memory.Register(ctx, service, e)
	return &countingRegistration{r, c}, err
}

type countingRegistration struct {
	discovery.Registration
	registry *counting
}

func (r *countingRegistration) Update(ctx context.Context, e discovery.Endpoint) error {
	r.registry.writes.Add(1)
	if r.registry.away.Load() {
		return errAway
	}
	return r.Registration.Update(ctx, e)
}

// Nodes find each other in a registry, and notice at once that one drains or has left.
func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry counting
		registry.away.Store(true)
		var said discoverytest.Output
		a := join(t, node("a"), members.NewRegistry("nodes", &registry, &registry), &said)
		b := join(t, node("b"), members.NewRegistry("nodes", &registry, &registry), nil)
		gateway := join(t, &cluster.Member{ID: "g", Cluster: "test", Role: cluster.Gateway}, members.NewRegistry("nodes", &registry, nil), &said)
		pass(3*time.Second + 500*time.Millisecond)
		want(t, a, "while the registry is away", "a")
		registry.away.Store(false)
		pass(time.Second)
		want(t, a, "when the registry is back", "a b")
		want(t, gateway, "of a node that is not announced", "a b g")
		if times(&said, "") != 2 || times(&said, "the source does not answer") != 1 || times(&said, "answers again") != 1 {
			t.Errorf("it was logged:\n%s", &said)
		}

		update(t, a, func(m *cluster.Member) { m.Draining, m.Labels = true, map[string]string{"zone": "x"} })
		synctest.Wait()
		want(t, b, "at once", "a! b")
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want(t, b, "when the other has left", "b")
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		want(t, gateway, "of a registry that has become empty", "b g")
	})
}

// A changed load is announced every five seconds at most, and what has not changed is not announced. What a registry may not have is announced again.
func TestLoadsInRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry counting
		a, b := join(t, node("a"), members.NewRegistry("nodes", &registry, &registry), nil), join(t, node("b"), members.NewRegistry("nodes", &registry, &registry), nil)
		pass(3*time.Second + 500*time.Millisecond)
		before := registry.writes.Load()
		for i := range 20 {
			update(t, a, func(m *cluster.Member) { m.Sessions = i + 1 })
			pass(time.Second)
		}
		if n := registry.writes.Load() - before; n < 3 || n > 5 {
			t.Errorf("a load that changed 20 times in 20 seconds was announced %d times", n)
		}
		pass(5 * time.Second)
		if got := b.Set().Member("a").Sessions; got != 20 {
			t.Errorf("the last load that others know is %d", got)
		}
		before = registry.writes.Load()
		pass(time.Minute)
		if n := registry.writes.Load() - before; n != 0 {
			t.Errorf("%d announcements of what had not changed", n)
		}

		registry.away.Store(true)
		update(t, b, func(m *cluster.Member) { m.Sessions = 1 })
		pass(10 * time.Second)
		registry.away.Store(false)
		pass(time.Second)
		if got := a.Set().Member("b").Sessions; got != 1 {
			t.Errorf("what could not be announced while the registry was away is not there: %d", got)
		}

		registry.away.Store(true) // and may have taken the update nevertheless
		update(t, b, func(m *cluster.Member) { m.Draining = true })
		synctest.Wait()
		update(t, b, func(m *cluster.Member) { m.Draining = false })
		registry.away.Store(false)
		before = registry.writes.Load()
		pass(time.Second)
		if n := registry.writes.Load() - before; n != 1 {
			t.Errorf("what the registry may not have was announced %d times", n)
		}
	})
}

// Endpoints that are no members are left out and logged once. Those of other programs, which have no member, are hubs.
func TestEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry discovery.Memory
		stranger := node("x")
		stranger.Cluster = "other"
		strange, err := stranger.Endpoint()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []discovery.Endpoint{
			strange,
			{Address: "10.0.0.1:9100", Zone: "z", Weight: 7},
			{Address: "bad.test:1", Labels: map[string]string{"sluice.member": "nonsense"}},
			{Address: "huge.test:1", Labels: map[string]string{"sluice.member": `{"id":"` + strings.Repeat("h", 1<<20) + `"}`}},
			{Address: "noisy.test:1", Labels: map[string]string{"a\nb": "c"}},
		} {
			if _, err := registry.Register(t.Context(), "nodes", e); err != nil {
				t.Fatal(err)
			}
		}
		var said discoverytest.Output
		d := join(t, node("a"), members.NewRegistry("nodes", &registry, &registry), &said)
		<-d.Ready()
		want(t, d, "of the registry", "10.0.0.1:9100 a")
		if m := d.Set().Member("10.0.0.1:9100"); !m.IsHub() || m.IsGateway() || m.Weight != 7 || m.Labels["zone"] != "z" {
			t.Errorf("an endpoint without a member is %+v", m)
		}
		for range 5 {
			if _, err := registry.Register(t.Context(), "nodes", discovery.Endpoint{Address: "bad.test:1", Labels: map[string]string{"sluice.member": time.Now().String()}}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		for _, text := range []string{"bad.test:1", "huge.test:1", "noisy.test:1"} {
			if n := times(&said, text); n != 1 {
				t.Errorf("%s was logged %d times", text, n)
			}
		}
		if n := len(said.String()); times(&said, "") != 3 || n > 2000 {
			t.Errorf("it was logged:\n%.3000s", said.String())
		}
	})
}

// A node without an address cannot be kept by a registry. A service that cannot be resolved ends the source. Both are logged.
func TestRegistryRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry discovery.Memory
		var said discoverytest.Output
		d := join(t, &cluster.Member{ID: "a"}, members.NewRegistry("nonsense", discovery.NewDNS(nil), &registry), &said)
		pass(10 * time.Second)
		want(t, d, "without a source", "a")
		if times(&said, "") != 2 || times(&said, "neither a public URL nor a link address") != 1 || times(&said, "nonsense") != 1 {
			t.Errorf("it was logged:\n%s", &said)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// waitFor waits until a Directory has these members.
func waitFor(t *testing.T, d *members.Directory, members string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound)
	defer cancel()
	var last string
	err := d.Watch(ctx, func(set *cluster.Set) {
		if last = text(set); last == members {
			cancel()
		}
	})
	if last != members {
		t.Fatalf("the members are %q, want %q (%v)", last, members, err)
	}
}

// Gateways find hubs in DNS, by the addresses of a name or by service records. A name that is gone, or a server that fails, leaves the set as it is.
func TestDNS(t *testing.T) {
	s := discoverytest.NewDNSServer(t)
	dns := discovery.NewDNS(&discovery.DNSOptions{Server: s.Addr(), MinInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond})
	gateway := cluster.Member{ID: "gw", Cluster: "test", Role: cluster.Gateway, Public: "ws://gw.test"}
	hub := cluster.Member{ID: "10.0.0.1:9100", Cluster: "test", Role: cluster.Hub, Link: "10.0.0.1:9100", Labels: map[string]string{"zone": "z"}}
	const service = "_link._tcp.hubs.test."
	first, second := discoverytest.Address("hubs.test.", "10.0.0.1", 0), discoverytest.Address("hubs.test.", "10.0.0.2", 0)
	s.Set(discoverytest.CodeNone, false, first, discoverytest.SRV(service, "h1.test.", 9100, 1, 30))
	var said discoverytest.Output
	byAddress, byService := join(t, &gateway, members.NewRegistry("hubs.test.:9100", dns, nil), &said), join(t, &gateway, members.NewRegistry(service, dns, nil), &said)
	ofHub := join(t, &hub, members.NewRegistry("hubs.test.:9100", dns, nil), &said)
	waitFor(t, byAddress, "10.0.0.1:9100 gw")
	waitFor(t, byService, "gw h1.test:9100")
	if m := byService.Set().Member("h1.test:9100"); m.Role != cluster.Hub || m.Weight != 30 || m.Link != "h1.test:9100" {
		t.Errorf("a service record is %+v", m)
	}
	s.Set(discoverytest.CodeNone, false, first, second, discoverytest.SRV(service, "h1.test.", 9100, 1, 30), discoverytest.SRV(service, "h2.test.", 9101, 1, 60))
	waitFor(t, byAddress, "10.0.0.1:9100 10.0.0.2:9100 gw")
	waitFor(t, byService, "gw h1.test:9100 h2.test:9101")
	waitFor(t, ofHub, "10.0.0.1:9100 10.0.0.2:9100")
	if m := ofHub.Set().Member(hub.ID); m.Labels["zone"] != "z" {
		t.Errorf("the hub is in its own set as %+v", m)
	}
	for _, code := range []byte{discoverytest.CodeFailure, discoverytest.CodeNone} {
		s.Set(code, false)
		asked := s.Questions()
		testwait.True(t, "DNS is asked again", func() bool { return s.Questions() >= asked+8 })
		want(t, byAddress, "without an answer", "10.0.0.1:9100 10.0.0.2:9100 gw")
	}
	if said.String() != "" {
		t.Errorf("it was logged:\n%s", &said)
	}
}

// With real registries: nodes join, drain, leave and are killed, and the registry is restarted and loses its data.
func TestServers(t *testing.T) {
	type registry interface {
		discovery.Resolver
		discovery.Registrar
	}
	tests := map[string]struct {
		start func(testing.TB) *discoverytest.Server
		open  func(t *testing.T, address string) (registry, func())
	}{
		"etcd": {discoverytest.StartEtcd, func(t *testing.T, address string) (registry, func()) {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
			if err != nil {
				t.Fatal(err)
			}
			return etcd.New(client, &etcd.Options{TTL: 2 * time.Second, Refresh: time.Second}), func() { _ = client.Close() }
		}},
		"ZooKeeper": {discoverytest.StartZooKeeper, func(t *testing.T, address string) (registry, func()) {
			r, err := zookeeper.New([]string{address}, &zookeeper.Options{SessionTimeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return r, func() { _ = r.Close() }
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := tt.start(t)
			open := func() (members.Source, func()) {
				r, end := tt.open(t, server.Addr)
				t.Cleanup(end)
				return members.NewRegistry("nodes", r, r), end
			}
			sourceA, _ := open()
			sourceB, _ := open()
			sourceC, kill := open()
			b := join(t, node("b"), sourceB, nil)
			c := join(t, node("c"), sourceC, nil)
			self := node("a")
			self.Labels, self.Capacity = map[string]string{"zone": "x", "tier": "<&>"}, 9
			a := join(t, self, sourceA, nil)
			waitFor(t, b, "a b c")
			waitFor(t, a, "a b c")
			if m := b.Set().Member("a"); !m.Equal(a.Set().Member("a")) {
				t.Errorf("the other node has %+v", m)
			}
			update(t, a, func(m *cluster.Member) { m.Draining = true })
			waitFor(t, b, "a! b c")
			kill()
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Close(gone) // nothing is withdrawn: the connection is closed
			waitFor(t, b, "a! b")
			server.Restart(true)
			update(t, a, func(m *cluster.Member) { m.Draining = false })
			waitFor(t, b, "a b")
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound)
			defer cancel()
			if err := a.Close(ctx); err != nil && !errors.Is(err, discovery.ErrClosed) {
				t.Error(err)
			}
			waitFor(t, b, "b")
		})
	}
}
