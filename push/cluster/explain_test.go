package cluster_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

// explained returns the text of an explanation in lines without the space that makes columns.
func explained(e cluster.Explanation) []string {
	var lines []string
	for line := range strings.Lines(e.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func compare(t *testing.T, got []string, want string) {
	t.Helper()
	if got := strings.Join(got, "\n"); got != strings.TrimSpace(want) {
		t.Errorf("explained is\n%s\nwant\n%s", got, want)
	}
}

// rulesOfAllKinds returns gateways, of which each has something of its own, and rules that look at it.
func rulesOfAllKinds() ([]cluster.Member, cluster.Rules) {
	members := nodes(7)
	for i, labels := range []map[string]string{
		{"zone": "a"}, {"zone": "b"}, {"zone": "a", "tier": "vip"}, {"zone": "b", "release": "next"}, {"zone": "a"}, {"zone": "b"}, {"zone": "a"},
	} {
		members[i].Labels, members[i].Sessions = labels, 100
	}
	members[0].Sessions = 400
	members[4].Draining = true
	members[5].Capacity = 100
	return members, cluster.Rules{
		Require: []cluster.Require{
			{Name: "vip", When: cluster.When{Claims: map[string]string{"tier": "vip"}}, Labels: cluster.Labels{"tier": "vip"}},
			{Name: "public", When: cluster.When{Claims: map[string]string{"tier": ""}}, Labels: cluster.Labels{"tier": ""}},
		},
		Canary: &cluster.Canary{Name: "next", Share: 0.25, Labels: cluster.Labels{"release": "next"}},
		Prefer: []cluster.Prefer{
			{Name: "claim", Order: []cluster.Labels{{"zone": "{zone}"}}},
			{Name: "near", When: cluster.When{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Order: []cluster.Labels{{"zone": "a"}, {"zone": "c"}}},
			{Name: "never", Order: []cluster.Labels{{"zone": "z"}}},
		},
		Policy:    cluster.ByUser,
		Addresses: 2,
	}
}

// Every rule of routes says what it does.
func TestExplainRoute(t *testing.T) {
	members, rules := rulesOfAllKinds()
	set := made(t, members)
	client := &cluster.Client{User: "ann", Addr: netip.MustParseAddr("10.1.2.3"), Claims: map[string]string{"app": "x"}, Channel: "quotes:ACME"}
	compare(t, explained(routed(t, rules).Explain(set, client)), `
gateways for the user "ann", address 10.1.2.3, claim app=x, channel "quotes:ACME"
gateways all nodes with the role gateway or all and a public URL
→ 7: node-000, node-001, node-002, node-003, node-004, node-005, node-006
require "vip" is for clients with the claim tier=vip only: this client is none of them
→ 7: node-000, node-001, node-002, node-003, node-004, node-005, node-006
require "public" is for clients with no claim tier: gateways must have no tier
→ 6: node-000, node-001, node-003, node-004, node-005, node-006
canary "next" the user is not among the 25 %: gateways with release=next come last
→ 6: node-000, node-001, node-004, node-005, node-006, node-003
prefer "claim" wants claims that the client does not have
→ 6: node-000, node-001, node-004, node-005, node-006, node-003
prefer "near" is for clients with an address in [10.0.0.0/8]: first zone=a, then zone=c, then all others
→ 6: node-000, node-004, node-006, node-001, node-005, node-003
user the best hash of the user, by weight
→ 6: node-000, node-006, node-004, node-005, node-001, node-003
overflow node-000 is over its bound: 400 sessions, its fair share is 300.0; node-004 is draining; node-005 is full: 100 sessions of 100
→ 5: node-006, node-000, node-001, node-003, node-005
addresses a client is told 2
→ 2: node-006, node-000
result: node-006, node-000
`)
}

// So they do for a client of which less is known, and for one that gets no gateway.
func TestExplainOtherRoutes(t *testing.T) {
	members, rules := rulesOfAllKinds()
	set := made(t, members)
	client := &cluster.Client{Addr: netip.MustParseAddr("10.1.2.3"), Claims: map[string]string{"zone": "b"}, Channel: "quotes:ACME"}
	rules.Policy, rules.Prefer, rules.Require = cluster.ByChannel, rules.Prefer[:1], nil
	rules.Canary.Share = 1
	compare(t, explained(routed(t, rules).Explain(set, client)), `
gateways for a client without user, address 10.1.2.3, claim zone=b, channel "quotes:ACME"
gateways all nodes with the role gateway or all and a public URL
→ 7: node-000, node-001, node-002, node-003, node-004, node-005, node-006
canary "next" a client without user is never in it: gateways with release=next come last
→ 7: node-000, node-001, node-002, node-004, node-005, node-006, node-003
prefer "claim" is for all clients: first zone=b, then all others
→ 7: node-001, node-005, node-000, node-002, node-004, node-006, node-003
channel the best hash of the group "quotes", by weight
→ 7: node-005, node-001, node-006, node-004, node-002, node-000, node-003
overflow node-000 is over its bound: 400 sessions, its fair share is 233.3; node-004 is draining; node-005 is full: 100 sessions of 100
→ 6: node-001, node-006, node-002, node-000, node-003, node-005
addresses a client is told 2
→ 2: node-001, node-006
result: node-001, node-006
`)
	rules = cluster.Rules{Require: []cluster.Require{{Name: "gold", Labels: cluster.Labels{"tier": "gold"}}}}
	compare(t, explained(routed(t, rules).Explain(set, &cluster.Client{})), `
gateways for a client without user
gateways all nodes with the role gateway or all and a public URL
→ 7: node-000, node-001, node-002, node-003, node-004, node-005, node-006
require "gold" is for all clients: gateways must have tier=gold
→ none
no result: cluster: no gateway: rule require[0] "gold" wants tier=gold, and leaves none of 7 gateways
`)
}

// Every rule of placement says what it does.
func TestExplainPlacement(t *testing.T) {
	members := nodes(14)
	for i := range members {
		members[i].Labels = map[string]string{"disk": []string{"fast", "slow"}[i%2], "zone": []string{"a", "b", "c"}[i%3]}
	}
	members[2].Draining = true
	placer := placing(t, cluster.Placement{Policy: cluster.PlaceByZone, Pinned: map[string]cluster.Labels{"quotes": {"disk": "fast"}, "lost": {"disk": "none"}}})
	set := made(t, members)
	compare(t, explained(placer.Explain(set, broker.Partition{Namespace: "quotes", Index: 3}, "a")), `
hub of partition 3 of namespace "quotes", for a gateway in zone "a"
hubs all nodes with the role hub or all and a link address
→ 14: node-000, node-001, node-002, node-003, node-004, node-005, node-006, node-007, node-008, node-009, node-010, node-011, …
pinned the namespace is pinned to hubs with disk=fast
→ 7: node-000, node-002, node-004, node-006, node-008, node-010, node-012
draining hubs that are draining are left out
→ 6: node-000, node-004, node-006, node-008, node-010, node-012
zone hubs with zone=a are preferred
→ 3: node-000, node-006, node-012
hash the best hash of the partition, by weight
→ 1: node-012
result: node-012, node-000, node-006, node-008, node-010, node-004, node-002
`)
	compare(t, explained(placer.Explain(set, broker.Partition{Namespace: "lost"}, "")), `
hub of partition 0 of namespace "lost"
hubs all nodes with the role hub or all and a link address
→ 14: node-000, node-001, node-002, node-003, node-004, node-005, node-006, node-007, node-008, node-009, node-010, node-011, …
pinned the namespace is pinned to hubs with disk=none
→ none
no result: cluster: no hub: namespace "lost" is pinned to hubs with disk=none, and none of 14 hubs has that
`)
	for i := range members {
		members[i].Draining = true
	}
	compare(t, explained(placer.Explain(made(t, members[:2]), broker.Partition{Namespace: "news"}, "z")), `
hub of partition 0 of namespace "news", for a gateway in zone "z"
hubs all nodes with the role hub or all and a link address
→ 2: node-000, node-001
draining all hubs that are left are draining, so one of them is chosen
→ 2: node-000, node-001
zone no hub that is left has zone=z, so all are used
→ 2: node-000, node-001
hash the best hash of the partition, by weight
→ 1: node-001
result: node-001, node-000
`)
	compare(t, explained(placer.Explain(made(t, members[:2]), broker.Partition{Namespace: "news"}, "")), `
hub of partition 0 of namespace "news"
hubs all nodes with the role hub or all and a link address
→ 2: node-000, node-001
draining all hubs that are left are draining, so one of them is chosen
→ 2: node-000, node-001
zone the gateway has no zone
→ 2: node-000, node-001
hash the best hash of the partition, by weight
→ 1: node-001
result: node-001, node-000
`)
}

// An explanation can be sent as JSON.
func TestExplanationAsJSON(t *testing.T) {
	e := routed(t, cluster.Rules{Policy: cluster.ByUser}).Explain(made(t, nodes(1)), &cluster.Client{User: "ann"})
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"subject":"gateways for the user \"ann\""`, `"members":["node-000"]`, `{"rule":"user","left":["node-000"],"why":"the best hash of the user, by weight"}`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s has no %s", text, part)
		}
	}
}
