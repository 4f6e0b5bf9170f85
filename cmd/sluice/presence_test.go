package main_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// join connects a client that subscribes to a channel, and returns its ID. It stays until the end of the test.
func (p *process) join(channel string) (id string) {
	p.t.Helper()
	conn, err := clientconn.Dial(testwait.Context(p.t), &clientconn.Options{
		URL: "http://" + p.public, Transport: "websocket", Protocol: "json", Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
	})
	must(p.t, err)
	p.t.Cleanup(conn.Close)
	var r protocol.Reply
	must(p.t, conn.Receive(testwait.Context(p.t), &r))
	exchange(p.t, conn, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel}}, nil)
	return r.Connect.Client
}

// present returns the IDs of the clients in a channel, in order.
func (p *process) present(channel string) (clients []string) {
	p.t.Helper()
	for id := range p.api("presence", map[string]any{"channel": channel})["presence"].(map[string]any) {
		clients = append(clients, id)
	}
	slices.Sort(clients)
	return clients
}

// TestPresenceOfKilledNode: the clients of a node that is killed are present no longer than a few seconds, and the others stay.
func TestPresenceOfKilledNode(t *testing.T) {
	t.Parallel()
	p := startPair(t, pairConfig)
	const channel = "ticks:room"
	var ids [2][]string
	for i := range 6 {
		ids[i%2] = append(ids[i%2], p.nodes[i%2].join(channel))
	}
	present := func(node *process) []string { return node.present(channel) }
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
