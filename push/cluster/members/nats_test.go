package members_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

// With a NATS server, whose leases are lost when it is restarted: no node vanishes, apart from one that is killed.
func TestNATS(t *testing.T) {
	t.Parallel()
	ctx := context.WithoutCancel(t.Context())
	open := func(o *nats.Options) *nats.Broker {
		t.Helper()
		b, err := nats.New(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	server := nats.Options{Dir: t.TempDir(), Listen: discoverytest.FreeAddr(t)}
	running := open(&server)
	defer func() { _ = running.Close() }()
	var nodes []*members.Directory
	var brokers []*nats.Broker
	for _, id := range []string{"a", "b", "c"} {
		b := open(&nats.Options{URL: "nats://" + server.Listen})
		defer func() { _ = b.Close() }()
		d, err := members.Join(node(id), members.NewLeases(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(ctx) }()
		nodes, brokers = append(nodes, d), append(brokers, b)
	}
	a, b := nodes[0], nodes[1]
	for _, d := range nodes {
		waitFor(t, d, "a b c")
	}

	watching, cancel := context.WithTimeout(ctx, testwait.Bound)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- a.Watch(watching, func(set *cluster.Set) {
			if got := text(set); got != "a b c" {
				t.Errorf("after the restart the members are %q", got)
			}
			if set.Member("b").Sessions == 7 { // this is announced after the restart
				cancel()
			}
		})
	}()
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	running = open(&server)
	testwait.True(t, "all nodes have announced themselves again", func() bool {
		leases, err := running.ListLeases(t.Context(), "member/test\x00")
		return err == nil && len(leases) == 3
	})
	update(t, b, func(m *cluster.Member) { m.Sessions = 7 })
	if err := testwait.Receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the change after the restart was not seen: %v", err)
	}

	if err := brokers[2].Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, a, "a b")
	update(t, b, func(m *cluster.Member) { m.Draining = true })
	waitFor(t, a, "a b!")
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	waitFor(t, a, "a")
}
