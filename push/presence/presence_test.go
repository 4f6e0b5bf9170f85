package presence_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/presence"
)

func newRegistry(t *testing.T) (b *presence.Registry, closeBroker func()) {
	t.Helper()
	m := memory.New(nil)
	closed := false
	closeBroker = func() {
		if !closed {
			closed = true
			must(t, m.Close())
		}
	}
	t.Cleanup(closeBroker)
	return &presence.Registry{Leases: m, Node: "one", TTL: time.Minute}, closeBroker
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func who(t *testing.T, b *presence.Registry, channel string) []string {
	t.Helper()
	found, err := b.Clients(t.Context(), channel)
	must(t, err)
	return slices.Sorted(maps.Keys(found))
}

// Clients are listed as they entered, in their channel only, until they leave. If a client enters twice, it stays when its first key leaves.
func TestClients(t *testing.T) {
	b, _ := newRegistry(t)
	ann := push.ClientInfo{User: "u", Client: "ann", ConnInfo: []byte(`{"a":"<&>"}`), ChanInfo: []byte(`[1]`)}
	first, second := presence.NewKey("news"), presence.NewKey("news")
	if first == second {
		t.Fatalf("the same key twice: %q", first)
	}
	must(t, b.Enter(t.Context(), first, &ann))
	must(t, b.Enter(t.Context(), first, &ann)) // renewed
	must(t, b.Enter(t.Context(), second, &ann))
	must(t, b.Enter(t.Context(), presence.NewKey("news"), &push.ClientInfo{User: "u", Client: "bob"}))
	must(t, b.Enter(t.Context(), presence.NewKey("newsroom"), &push.ClientInfo{Client: "cay"}))
	must(t, b.Leases.PutLease(t.Context(), broker.Lease{Key: "presence/news\x00x", Value: []byte("no record")}, time.Minute))

	found, err := b.Clients(t.Context(), "news")
	must(t, err)
	want := map[string]*push.ClientInfo{"ann": &ann, "bob": {User: "u", Client: "bob"}}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if n := presence.Users(found); n != 1 {
		t.Errorf("%d users, want 1", n)
	}
	must(t, b.Leave(t.Context(), first))
	if got := who(t, b, "news"); !slices.Equal(got, []string{"ann", "bob"}) {
		t.Errorf("after the first of two left: %v", got)
	}
	must(t, b.Leave(t.Context(), second))
	must(t, b.Leave(t.Context(), second)) // nothing is left of it
	if got := who(t, b, "news"); !slices.Equal(got, []string{"bob"}) {
		t.Errorf("after both left: %v", got)
	}
	if got := who(t, b, "newsroom"); !slices.Equal(got, []string{"cay"}) {
		t.Errorf("in the other channel: %v", got)
	}
}

// beside returns the registry of another node that shares the broker.
func beside(b *presence.Registry, node string) *presence.Registry {
	return &presence.Registry{Leases: b.Leases, Node: node, TTL: b.TTL}
}

// Nodes are listed as they were last announced, except for the asking node, and vanish when they retire.
func TestNodes(t *testing.T) {
	b, closeBroker := newRegistry(t)
	second := beside(b, "two")
	one, two := presence.Node{ID: "one", Name: "first", Clients: 1}, presence.Node{ID: "two", Version: "v1", Users: 2, Subs: 3, Channels: 4, Uptime: 5}
	must(t, b.Announce(t.Context(), &one))
	must(t, second.Announce(t.Context(), &presence.Node{ID: "two"}))
	must(t, second.Announce(t.Context(), &two))
	must(t, b.Leases.PutLease(t.Context(), broker.Lease{Key: "node/three", Value: []byte("nonsense")}, time.Minute))
	others := func(b *presence.Registry) []presence.Node {
		t.Helper()
		found, err := b.Others(t.Context())
		must(t, err)
		return found
	}
	if got := others(b); !slices.Equal(got, []presence.Node{two}) {
		t.Errorf("beside the first: %+v", got)
	}
	if got := others(beside(b, "else")); !slices.Equal(got, []presence.Node{one, two}) {
		t.Errorf("all: %+v", got)
	}
	must(t, second.Retire(t.Context()))
	if got := others(b); len(got) > 0 {
		t.Errorf("after it retired: %+v", got)
	}
	closeBroker()
	if _, err := b.Others(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("of a broker that is closed: %v", err)
	}
	if _, err := b.Clients(t.Context(), "news"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("of a broker that is closed: %v", err)
	}
}

// A node that is down takes its clients with it, and brings them back with its next beat. Those of the asking node, and of an earlier release, which
// did not say to which node they are connected, stay.
func TestClientsOfNodes(t *testing.T) {
	b, _ := newRegistry(t)
	other, old := beside(b, "two"), beside(b, "")
	must(t, other.Announce(t.Context(), &presence.Node{ID: "two"}))
	for name, r := range map[string]*presence.Registry{"ann": b, "bob": other, "cay": old} {
		must(t, r.Enter(t.Context(), presence.NewKey("news"), &push.ClientInfo{Client: name}))
	}
	everybody, without := []string{"ann", "bob", "cay"}, []string{"ann", "cay"}
	if got := who(t, b, "news"); !slices.Equal(got, everybody) {
		t.Errorf("all nodes are up: %v", got)
	}
	must(t, b.Leases.DropLease(t.Context(), "node/two")) // as when it has not been renewed for NodeTTL
	if got := who(t, b, "news"); !slices.Equal(got, without) {
		t.Errorf("the other node is down: %v", got)
	}
	if got := who(t, other, "news"); !slices.Equal(got, []string{"bob", "cay"}) {
		t.Errorf("asked by the node that is down for all others, and with the first one not up: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		other.Beat(ctx)
	}()
	testwait.True(t, "the other node is up again", func() bool { return slices.Equal(who(t, b, "news"), everybody) })
	cancel()
	testwait.Receive(t, beating)
	must(t, other.Retire(t.Context()))
	if got := who(t, b, "news"); !slices.Equal(got, without) {
		t.Errorf("the other node has retired: %v", got)
	}
}
