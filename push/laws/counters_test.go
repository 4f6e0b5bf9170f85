package laws_test

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// counters count the events of a run.
type counters struct {
	seeds, publications, deliveries, differences, rests      atomic.Int64
	connections, cuts, stalls, resumed, fresh, ended, losses atomic.Int64
	kills, restarts, lags, gaps, lives                       atomic.Int64
	linkCuts, linkStalls, hubRestarts, hubMoves, flips       atomic.Int64
}

func (t *counters) counts() []struct {
	name string
	n    *atomic.Int64
} {
	return []struct {
		name string
		n    *atomic.Int64
	}{
		{"seeds", &t.seeds},
		{"publications", &t.publications},
		{"deliveries", &t.deliveries},
		{"differences", &t.differences},
		{"connections", &t.connections},
		{"cuts", &t.cuts},
		{"stalls", &t.stalls},
		{"resumed", &t.resumed},
		{"fresh starts", &t.fresh},
		{"ended subscriptions", &t.ended},
		{"losses told", &t.losses},
		{"nodes killed", &t.kills},
		{"broker restarts", &t.restarts},
		{"lags", &t.lags},
		{"gaps", &t.gaps},
		{"new lives", &t.lives},
		{"links cut", &t.linkCuts},
		{"links stalled", &t.linkStalls},
		{"hubs restarted", &t.hubRestarts},
		{"hubs moved", &t.hubMoves},
		{"flips", &t.flips},
		{"quiet points", &t.rests},
	}
}

func (t *counters) add(o *counters) {
	others := o.counts()
	for i, c := range t.counts() {
		c.n.Add(others[i].n.Load())
	}
}

// missing names the events that never happened although every run should have some. Losses are expected only after 100 seeds. Faults of the
// nodes and the broker are not expected if only one cluster runs.
func (t *counters) missing() string {
	var out []string
	for _, c := range t.counts() {
		if c.n.Load() == 0 && (c.name != "losses told" || t.seeds.Load() > 100) && (*only == "" || !strings.Contains("nodes killed, broker restarts, lags, gaps, new lives, links cut, links stalled, hubs restarted, hubs moved, flips", c.name)) {
			out = append(out, c.name)
		}
	}
	return strings.Join(out, ", ")
}

func (t *counters) String() string {
	var out []string
	for _, c := range t.counts() {
		out = append(out, fmt.Sprintf("%d %s", c.n.Load(), c.name))
	}
	return strings.Join(out, ", ")
}
