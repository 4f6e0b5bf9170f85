package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

func placing(t fataler, rules cluster.Placement) *cluster.Placer {
	t.Helper()
	placer, err := cluster.NewPlacer(&rules)
	if err != nil {
		t.Fatal(err)
	}
	return placer
}

// places returns the hub of each of n partitions, for a gateway in a zone.
func places(t fataler, placer *cluster.Placer, set *cluster.Set, n int, zone string) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		m, err := placer.Place(set, broker.Partition{Namespace: "quotes", Index: i}, zone)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = m.ID
	}
	return out
}

// anyHubs draws hubs with labels and weights, some of which are draining.
func anyHubs(t *rapid.T) []cluster.Member {
	members := nodes(rapid.IntRange(1, 8).Draw(t, "hubs"))
	for i := range members {
		members[i].Weight = rapid.IntRange(1, 5).Draw(t, "weight")
		members[i].Draining = rapid.IntRange(0, 4).Draw(t, "draining") == 0
		members[i].Labels = map[string]string{"zone": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone")}
	}
	return members
}

// Every node has the same answer, whatever the order of its list. A hub that leaves moves only its own partitions, and one that joins takes some and
// moves no others. Hubs that are draining have none if there are others, and hubs in the zone are preferred.
func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := anyHubs(t)
		policy := rapid.SampledFrom([]cluster.PlacementPolicy{cluster.PlaceByHash, cluster.PlaceByZone}).Draw(t, "policy")
		zone := rapid.SampledFrom([]string{"", "a", "b", "x"}).Draw(t, "zone of the gateway")
		placer, set := placing(t, cluster.Placement{Policy: policy}), made(t, members)
		const partitions = 64
		before := places(t, placer, set, partitions, zone)

		mixed := slices.Clone(members)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if got := places(t, placer, made(t, mixed), partitions, zone); !slices.Equal(got, before) {
			t.Fatalf("another order of the list: %v instead of %v", got, before)
		}

		stays := func(m *cluster.Member) bool { return !m.Draining }
		isNear := func(m *cluster.Member) bool { return m.Labels["zone"] == zone }
		has := func(is ...func(*cluster.Member) bool) bool {
			return slices.ContainsFunc(members, func(m cluster.Member) bool {
				return !slices.ContainsFunc(is, func(f func(*cluster.Member) bool) bool { return !f(&m) })
			})
		}
		for i, id := range before {
			m := set.Member(id)
			if m.Draining && has(stays) {
				t.Fatalf("partition %d is on %s, which is draining", i, id)
			}
			if policy == cluster.PlaceByZone && zone != "" && !isNear(m) && (has(stays, isNear) || !has(stays) && has(isNear)) {
				t.Fatalf("partition %d is on %s, outside zone %s", i, id, zone)
			}
			ranked, err := placer.Rank(set, broker.Partition{Namespace: "quotes", Index: i}, zone)
			if err != nil || ranked[0] != m || len(ranked) != len(members) {
				t.Fatalf("partition %d: the ranking of %d hubs begins with %v (%v)", i, len(ranked), ranked[0], err)
			}
			if len(ranked) > 1 {
				without := slices.DeleteFunc(slices.Clone(members), func(m cluster.Member) bool { return m.ID == id })
				if next := places(t, placer, made(t, without), i+1, zone)[i]; next != ranked[1].ID {
					t.Fatalf("partition %d: without its hub it is on %s, the ranking says %s", i, next, ranked[1].ID)
				}
			}
		}

		if len(members) == 1 {
			return
		}
		gone := rapid.IntRange(0, len(members)-1).Draw(t, "the hub that leaves")
		if others := slices.Delete(slices.Clone(members), gone, gone+1); slices.ContainsFunc(others, func(m cluster.Member) bool { return !m.Draining }) {
			after := places(t, placer, made(t, others), partitions, zone)
			for i := range before {
				if before[i] != after[i] && before[i] != members[gone].ID {
					t.Fatalf("partition %d moved from %s to %s when %s left", i, before[i], after[i], members[gone].ID)
				}
			}
		}
	})
}

// Shares of many partitions follow the weights, and a hub that joins takes only its share.
func TestPlaceShares(t *testing.T) {
	const partitions = 20_000
	members := nodes(5)
	total := 0
	for i := range members {
		members[i].Weight = 100 * (i + 1)
		total += members[i].Weight
	}
	placer := placing(t, cluster.Placement{})
	after := places(t, placer, made(t, members), partitions, "")
	got := make(map[string]int)
	for _, id := range after {
		got[id]++
	}
	for _, m := range members {
		want := float64(partitions) * float64(m.Weight) / float64(total)
		if math.Abs(float64(got[m.ID])-want) > want/10 {
			t.Errorf("%s has %d partitions, want %.0f", m.ID, got[m.ID], want)
		}
	}
	moved := 0
	for i, id := range places(t, placer, made(t, members[:4]), partitions, "") {
		if id != after[i] {
			moved++
		}
	}
	if moved != got[members[4].ID] {
		t.Errorf("%d partitions moved to the hub that joined, which has %d", moved, got[members[4].ID])
	}
	// Consecutive partitions of one namespace, and namespaces with the same partition, are not all on one hub.
	for _, namespaces := range []bool{false, true} {
		used := make(map[string]bool)
		for i := range 32 {
			p := broker.Partition{Namespace: "ns", Index: i}
			if namespaces {
				p = broker.Partition{Namespace: fmt.Sprint("ns", i)}
			}
			m, err := placer.Place(made(t, nodes(4)), p, "")
			if err != nil {
				t.Fatal(err)
			}
			used[m.ID] = true
		}
		if len(used) != 4 {
			t.Errorf("32 partitions are on %d of 4 hubs", len(used))
		}
	}
}

// Placement is an agreement between releases, so it must never change.
func TestPlaceIsFixed(t *testing.T) {
	got := places(t, placing(t, cluster.Placement{}), made(t, nodes(5)), 12, "")
	want := strings.Fields("4 3 4 3 1 4 2 2 2 1 1 1")
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "node-00")
	}
	if !slices.Equal(got, want) {
		t.Errorf("partitions are on %v, and were on %v", got, want)
	}
}

// A pinned namespace gets hubs with its labels only, and a clear error if there are none; other namespaces get all hubs.
func TestPinned(t *testing.T) {
	members := nodes(6)
	for i := range members {
		members[i].Labels = map[string]string{"disk": []string{"fast", "slow"}[i%2], "zone": []string{"a", "b", "c"}[i%3]}
	}
	placer := placing(t, cluster.Placement{
		Policy: cluster.PlaceByZone, Pinned: map[string]cluster.Labels{"quotes": {"disk": "fast"}, "lost": {"disk": "none", "zone": ""}},
	})
	for _, id := range places(t, placer, made(t, members), 50, "b") {
		if id != "node-004" { // fast, and in zone b
			t.Fatalf("a pinned partition is on %s", id)
		}
	}
	members[4].Draining = true
	for _, id := range places(t, placer, made(t, members), 50, "b") {
		if id != "node-000" && id != "node-002" {
			t.Fatalf("a pinned partition is on %s", id)
		}
	}
	members[0].Draining, members[2].Draining = true, true
	for _, id := range places(t, placer, made(t, members), 50, "b") {
		if id != "node-004" { // all with the labels are draining
			t.Fatalf("a pinned partition is on %s", id)
		}
	}
	used := make(map[string]bool)
	for i := range 50 {
		m, err := placer.Place(made(t, members), broker.Partition{Namespace: "other", Index: i}, "")
		if err != nil {
			t.Fatal(err)
		}
		used[m.ID] = true
	}
	if len(used) != 3 { // all hubs that are not draining
		t.Errorf("a namespace that is not pinned is on %v", used)
	}

	lost := broker.Partition{Namespace: "lost"}
	_, err := placer.Place(made(t, members), lost, "")
	_, errRank := placer.Rank(made(t, members), lost, "")
	const want = `cluster: no hub: namespace "lost" is pinned to hubs with disk=none, no zone, and none of 6 hubs has that`
	if !errors.Is(err, cluster.ErrNoHub) || err.Error() != want || errRank == nil || errRank.Error() != want {
		t.Errorf("no hub has the labels: %v, %v", err, errRank)
	}
	gateways := nodes(2)
	gateways[0].Role, gateways[1].Link = cluster.Gateway, ""
	if _, err = placer.Place(made(t, gateways), lost, ""); !errors.Is(err, cluster.ErrNoHub) || !strings.Contains(err.Error(), "none of 2 nodes is a hub with a link address") {
		t.Errorf("no hub at all: %v", err)
	}
}

func TestPlacementErrors(t *testing.T) {
	_, err := cluster.NewPlacer(&cluster.Placement{
		Policy: 9, ZoneLabel: "\n", Pinned: map[string]cluster.Labels{"a": {}, "b": {"": "x"}, "c": {"disk": "fast"}},
	})
	for _, part := range []string{
		"unknown placement policy(9)", "zone label: \"\\n\" has a control character", `namespace "a": labels: none is given`, `namespace "b": labels: a name is empty`,
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if placer, err := cluster.NewPlacer(nil); err != nil || len(places(t, placer, made(t, nodes(1)), 1, "")) != 1 {
		t.Errorf("without rules: %v", err)
	}
}

// The explanation ends where Place does, and each step leaves some of what the one before has left.
func TestExplainPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := anyHubs(t)
		placer := placing(t, cluster.Placement{
			Policy: rapid.SampledFrom([]cluster.PlacementPolicy{cluster.PlaceByHash, cluster.PlaceByZone}).Draw(t, "policy"),
			Pinned: map[string]cluster.Labels{"quotes": {"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pinned")}},
		})
		partition := broker.Partition{Namespace: rapid.SampledFrom([]string{"quotes", "news"}).Draw(t, "namespace"), Index: 3}
		zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
		set := made(t, members)
		m, err := placer.Place(set, partition, zone)
		e := placer.Explain(set, partition, zone)
		checkSteps(t, &e)
		if err != nil {
			if e.Problem != err.Error() || e.Members != nil {
				t.Fatalf("%v, but explained is\n%v", err, &e)
			}
			return
		}
		if e.Members[0] != m.ID || !slices.Equal(e.Steps[len(e.Steps)-1].Left, []string{m.ID}) || e.Problem != "" {
			t.Fatalf("%s, but explained is\n%v", m.ID, &e)
		}
	})
}

// checkSteps checks that no step of an explanation brings back what one before has taken away.
func checkSteps(t *rapid.T, e *cluster.Explanation) {
	for i, s := range e.Steps {
		if s.Rule == "" || s.Why == "" {
			t.Fatalf("a step without rule or reason:\n%v", e)
		}
		for _, id := range s.Left {
			if i > 0 && !slices.Contains(e.Steps[i-1].Left, id) {
				t.Fatalf("%s comes back with %s:\n%v", id, s.Rule, e)
			}
		}
	}
}
