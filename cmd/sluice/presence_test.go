package main_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// TestPresenceOfKilledNode: the clients of a node that is killed are present no longer than a few seconds, and the others stay.
func TestPresenceOfKilledNode(t *testing.T) {
	t.Parallel()
	p := startPair(t, pairConfig)
	const channel = "ticks:room"
	var ids [2][]string
	for i := range 6 {
		conn, err := clientconn.Dial(testwait.Context(t), &clientconn.Options{
			URL: "http://" + p.nodes[i%2].public, Transport: "websocket", Protocol: "json",
			Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		var r protocol.Reply
		if err := conn.Receive(testwait.Context(t), &r); err != nil {
			t.Fatal(err)
		}
		ids[i%2] = append(ids[i%2], r.Connect.Client)
		exchange(t, conn, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel}}, nil)
	}
	present := func(node *process) (clients []string) {
		found := node.api("presence", map[string]any{"channel": channel})["presence"].(map[string]any)
		for id := range found {
			clients = append(clients, id)
		}
		slices.Sort(clients)
		return clients
	}
	everybody := slices.Sorted(slices.Values(slices.Concat(ids[0], ids[1])))
	slices.Sort(ids[1])
	for _, node := range p.nodes {
		if got := present(node); !slices.Equal(got, everybody) {
			t.Errorf("present are %q, want %q", got, everybody)
		}
	}
	p.nodes[0].kill()
	began := time.Now()
	testwait.True(t, "the clients of the killed node are gone", func() bool { return slices.Equal(present(p.nodes[1]), ids[1]) })
	t.Logf("after %v", time.Since(began).Round(time.Millisecond))
	if stats := p.nodes[1].api("presence_stats", map[string]any{"channel": channel}); stats["num_clients"] != 3.0 {
		t.Errorf("the statistics are %v", stats)
	}
}
