package clusternode

import (
	"net"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/cluster"
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
	if got := s.apply(announced).Member("b").Sessions; got != sentBatch {
		t.Errorf("%d sessions, want %d", got, sentBatch)
	}
	a.Sessions++
	if got := s.apply(set(t, a, b)).Member("b").Sessions; got != sentBatch {
		t.Errorf("%d sessions after another gateway has announced its own, want %d", got, sentBatch)
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
