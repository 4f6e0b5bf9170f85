package cluster_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

// manyGateways returns a set of gateways in three zones, one of ten with the label release=next, each with 1,000 sessions.
func manyGateways(t testing.TB, n int) *cluster.Set {
	t.Helper()
	members := nodes(n)
	for i := range members {
		members[i].Sessions = 1000
		members[i].Labels = map[string]string{"zone": string(rune('a' + i%3)), "tier": "public"}
		if i%10 == 9 {
			members[i].Labels["release"] = "next"
		}
	}
	return made(t, members)
}

// BenchmarkRoute chooses three of 100 gateways.
func BenchmarkRoute(b *testing.B) {
	all := cluster.Rules{
		Require: []cluster.Require{
			{Name: "vip", When: cluster.When{Claims: map[string]string{"tier": "vip"}}, Labels: cluster.Labels{"tier": "vip"}},
			{Name: "public", When: cluster.When{Claims: map[string]string{"tier": ""}}, Labels: cluster.Labels{"tier": "public"}},
		},
		Canary: &cluster.Canary{Name: "next", Share: 0.05, Labels: cluster.Labels{"release": "next"}},
		Prefer: []cluster.Prefer{{
			Name: "near", When: cluster.When{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
			Order: []cluster.Labels{{"zone": "a"}, {"zone": "b"}},
		}},
	}
	set := manyGateways(b, 100)
	client := cluster.Client{User: "ann", Addr: netip.MustParseAddr("10.1.2.3"), Channel: "quotes:ACME"}
	for name, rules := range map[string]cluster.Rules{"none": {}, "all": all} {
		for _, policy := range []cluster.Policy{cluster.LeastLoaded, cluster.ByUser, cluster.ByChannel} {
			rules.Policy = policy
			router := routed(b, rules)
			b.Run(fmt.Sprintf("rules=%s/%v", name, policy), func(b *testing.B) {
				b.ReportAllocs()
				var dst []*cluster.Member
				for b.Loop() {
					client.Random++
					var err error
					if dst, err = router.Route(dst[:0], set, &client); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPlace chooses one of 100 hubs.
func BenchmarkPlace(b *testing.B) {
	set := manyGateways(b, 100)
	for _, policy := range []cluster.PlacementPolicy{cluster.PlaceByHash, cluster.PlaceByZone} {
		placer, err := cluster.NewPlacer(&cluster.Placement{Policy: policy})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(policy.String(), func(b *testing.B) {
			b.ReportAllocs()
			partition := broker.Partition{Namespace: "quotes"}
			for b.Loop() {
				partition.Index++
				if _, err := placer.Place(set, partition, "a"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewSet makes a set of 100 members, as happens with each announcement.
func BenchmarkNewSet(b *testing.B) {
	members := manyGateways(b, 100).Members()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cluster.NewSet("", members); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRebind looks at 1,000 sessions of one of 100 gateways, of which none has to move.
func BenchmarkRebind(b *testing.B) {
	set := manyGateways(b, 100)
	router := routed(b, cluster.Rules{Policy: cluster.ByUser})
	var sessions []cluster.Session
	for i := 0; len(sessions) < 1000; i++ {
		if c := (cluster.Client{User: fmt.Sprint("user-", i)}); route(b, router, set, c)[0] == "node-007" {
			sessions = append(sessions, cluster.Session{Client: c})
		}
	}
	rebind := rebinding(b, cluster.RebindOptions{Self: "node-007", Router: router})
	b.ReportAllocs()
	for b.Loop() {
		if moves, _ := rebind.Step(time.Unix(1000, 0), set, sessions); len(moves) > 0 {
			b.Fatal(moves)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(sessions)), "ns/session")
}
