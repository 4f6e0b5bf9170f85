package main_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// TestClusterPresence: the clients of all gateways are present, each once. Those of a killed gateway are gone after a few seconds, although a gateway with
// the same ID is back at once, and although the clients have connected to another gateway meanwhile.
func TestClusterPresence(t *testing.T) {
	t.Parallel()
	c := startCluster(t, &clusterPlan{config: pairConfig})
	const channel, each = "ticks:room", 3
	joinAll := func(n *clusterNode) (ids []string) {
		for range each {
			ids = append(ids, n.join(channel))
		}
		return ids
	}
	sorted := func(ids ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(ids...))) }
	killed, staying := joinAll(c.gateways[0]), joinAll(c.gateways[1])
	for _, n := range c.gateways {
		if got, want := n.present(channel), sorted(killed, staying); !slices.Equal(got, want) {
			t.Errorf("present are %q, want %q", got, want)
		}
	}
	c.killGateway(c.gateways[0])
	began := time.Now()
	moved := joinAll(c.gateways[1])
	c.gateways[0].start()
	for _, n := range c.gateways {
		want := sorted(staying, moved)
		testwait.True(t, "the clients of the killed gateway are gone", func() bool {
			got := n.present(channel)
			for _, id := range want {
				if !slices.Contains(got, id) {
					t.Errorf("client %s is connected, but not present: %q", id, got)
				}
			}
			stats := n.api("presence_stats", map[string]any{"channel": channel})
			if count := stats["num_clients"].(float64); count > 3*each {
				t.Errorf("%v clients are counted, but there were only %d", count, 3*each)
			}
			return slices.Equal(got, want)
		})
		t.Logf("after %v", time.Since(began).Round(time.Millisecond))
		if stats := n.api("presence_stats", map[string]any{"channel": channel}); stats["num_clients"] != 2.0*each {
			t.Errorf("the statistics are %v", stats)
		}
	}
	back := joinAll(c.gateways[0])
	for _, n := range c.gateways {
		if got, want := n.present(channel), sorted(staying, moved, back); !slices.Equal(got, want) {
			t.Errorf("present are %q, want %q", got, want)
		}
	}
}
