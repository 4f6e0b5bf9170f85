package clusternode

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
)

// Clients that come between two announcements are spread, although the announced numbers stay as they are.
func TestSent(t *testing.T) {
	a, b := cluster.Member{ID: "a", Role: cluster.Gateway, Public: "http://a", Sessions: 100}, cluster.Member{ID: "b", Role: cluster.Gateway, Public: "http://b"}
	announced := set(t, a, b)
	var s sent
	for range sentBatch {
		if s.apply(announced) != announced {
			t.Fatal("the set is made anew for each client")
		}
		s.add(announced.Member("b"))
	}
	const both = 2 * sentBatch // the other gateway is taken to send as many
	if got := s.apply(announced).Member("b").Sessions; got != both {
		t.Errorf("%d sessions, want %d", got, both)
	}
	a.Sessions++
	if got := s.apply(set(t, a, b)).Member("b").Sessions; got != both {
		t.Errorf("%d sessions after another gateway has announced its own, want %d", got, both)
	}
	b.Sessions = 7
	if got := s.apply(set(t, a, b)).Member("b").Sessions; got != 7 {
		t.Errorf("%d sessions, want the 7 that the gateway has announced", got)
	}
	s.add(&cluster.Member{ID: "gone"})
	if got := s.apply(set(t, a)); got.Member("gone") != nil {
		t.Error("a gateway that is gone is in the set")
	}
}

// When many clients come at once and ask all gateways in turn, each gateway gets about its share, although numbers of clients are announced, and read
// by the others, once a second only, and no gateway knows whom the others send where.
func TestSentByAll(t *testing.T) {
	const gateways, clients, every = 4, 10_000, 300 * time.Microsecond
	router, err := cluster.NewRouter(nil)
	if err != nil {
		t.Fatal(err)
	}
	members, nodes, known, counts := make([]cluster.Member, gateways), make([]sent, gateways), make([]*cluster.Set, gateways), make([]int, gateways)
	for i := range members {
		members[i] = cluster.Member{ID: fmt.Sprint(i), Role: cluster.Gateway, Public: fmt.Sprint("http://", i)}
	}
	random := rand.New(rand.NewPCG(1, 2))
	const second = int(time.Second / every) // in clients
	for i := range clients {
		for j := range members {
			if i%second == j*second/gateways {
				members[j].Sessions = counts[j]
			}
			if i%second == 0 {
				known[j] = set(t, members...)
			}
		}
		at := i % gateways
		found, err := router.Route(nil, nodes[at].apply(known[at]), &cluster.Client{Random: random.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		nodes[at].add(found[0])
		counts[slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID == found[0].ID })]++
	}
	for i, n := range counts {
		if share := float64(n) * gateways / clients; share < 0.8 || share > 1.2 {
			t.Errorf("gateway %d has %d clients, %.2f times its share", i, n, share)
		}
	}
}

// A node tells clients of the gateways of its cluster, and not of itself while it drains, even if there is no other.
func TestRoute(t *testing.T) {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	public := listen(t, "tcp", "127.0.0.1:0")
	n, err := New(parse(t, `
cluster: {name: c, node: me, labels: {tier: std}, route: {require: [{labels: {tier: "{tier}"}}]}}
`), Options{Public: public})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := n.Join(b); err != nil {
		t.Fatal(err)
	}
	if err := n.Admit(crowd(0)); err != nil {
		t.Fatal(err)
	}
	client := &route.Client{User: "ann", Claims: map[string]string{"tier": "std"}}
	url := "http://" + public.Addr().(*net.TCPAddr).String()
	if got := route.URLs(n.Route(client, true)); !slices.Equal(got, []string{url}) {
		t.Errorf("routes %q, want this node", got)
	}
	if !n.Allows(client) || n.Allows(&route.Client{Claims: map[string]string{"tier": "vip"}}) {
		t.Error("the hard rule is not kept")
	}
	n.Drain()
	if got := n.Route(client, true); len(got) != 0 {
		t.Errorf("routes %q of a draining node, want none", got)
	}
}

// All clients are looked at in turn, a bounded number in a step, and those whose place is elsewhere are moved there, at the rate.
func TestRebinder(t *testing.T) {
	const rate = 5000
	n, err := New(parse(t, fmt.Sprintf("cluster: {name: c, node: me, route: {policy: user, bound: 0}, rebind: {rate: %d, skew: 100, cooldown: 0s}}", rate)),
		Options{Public: listen(t, "tcp", "127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	r, err := n.newRebinder()
	if err != nil {
		t.Fatal(err)
	}
	members := set(t, cluster.Member{ID: "me", Public: "http://me"}, cluster.Member{ID: "other", Public: "http://other"})
	now := time.Now()
	here := map[*route.Client]gateway.Session{}
	elsewhere := 0 // clients whose place is the other gateway
	for i := range 3*stepClients + 1 {
		c := &route.Client{User: fmt.Sprint("user", i)}
		here[c] = gateway.Session{Client: c, Since: now.Add(-time.Minute)}
		client := clientOf(c)
		if best, err := n.router.Route(nil, members, &client); err != nil || best[0].ID == "other" {
			elsewhere++
		}
	}
	listed := 0
	all := func(yield func(gateway.Session) bool) {
		listed++
		for _, s := range here {
			if !yield(s) {
				return
			}
		}
	}
	r.move = func(s gateway.Session, urls []string) bool {
		_, isHere := here[s.Client]
		if delete(here, s.Client); !slices.Equal(urls, []string{"http://other", "http://me"}) {
			t.Errorf("sent to %q", urls)
		}
		return isHere
	}
	clients, total, steps := len(here), 0, 0
	for pause := stepPause; len(here) > clients-elsewhere && steps < 1000; steps++ {
		var moved int
		now = now.Add(pause)
		members := set(t, cluster.Member{ID: "me", Public: "http://me", Sessions: len(here)},
			cluster.Member{ID: "other", Public: "http://other", Sessions: clients - len(here)})
		if moved, pause = r.step(now, members, all); moved > rate/10 || pause < stepPause || pause > period || len(r.sessions) != 0 || cap(r.sessions) > 2*stepClients {
			t.Fatalf("%d moved in a step; room for %d clients", moved, cap(r.sessions))
		}
		if total += moved; steps < 3 && listed != 1 {
			t.Errorf("clients were listed %d times before all were looked at", listed)
		}
	}
	if total != elsewhere {
		t.Errorf("%d moved in %d steps, want the %d whose place is elsewhere", total, steps, elsewhere)
	}
}
