package cluster_test

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/cluster"
)

// No client gets a gateway that is meant for others, even if there is none for it.
func TestHardRules(t *testing.T) {
	members := nodes(6)
	for i := range members[:2] {
		members[i].Labels = map[string]string{"tier": "vip"}
	}
	members[5].Labels = map[string]string{"tenant": "acme"}
	router := routed(t, cluster.Rules{Require: []cluster.Require{
		{Name: "vip", When: cluster.When{Claims: map[string]string{"tier": "vip"}}, Labels: cluster.Labels{"tier": "vip"}},
		{Name: "public", When: cluster.When{Claims: map[string]string{"tier": ""}}, Labels: cluster.Labels{"tier": ""}},
		{Name: "tenant", Labels: cluster.Labels{"tenant": "{tenant}"}},
	}})
	set := made(t, members)
	for i := range 300 {
		for _, tt := range []struct {
			claims map[string]string
			want   []string
		}{
			{nil, []string{"node-002", "node-003", "node-004"}},
			{map[string]string{"tier": "vip"}, []string{"node-000", "node-001"}},
			{map[string]string{"tenant": "acme"}, []string{"node-005"}},
		} {
			got := route(t, router, set, cluster.Client{Claims: tt.claims, Random: uint64(i)})
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Fatalf("%v gets %v", tt.claims, got)
			}
		}
	}
	_, err := router.Route(nil, set, &cluster.Client{Claims: map[string]string{"tier": "vip", "tenant": "acme"}})
	const want = `cluster: no gateway: rule require[2] "tenant" wants tenant=acme, and leaves none of 6 gateways`
	if !errors.Is(err, cluster.ErrNoGateway) || err.Error() != want {
		t.Errorf("a client whose rules leave none: %v", err)
	}
	hubs := nodes(2)
	hubs[0].Role, hubs[1].Public = cluster.Hub, ""
	if _, err := router.Route(nil, made(t, hubs), &cluster.Client{}); !errors.Is(err, cluster.ErrNoGateway) || !strings.Contains(err.Error(), "none of 2 nodes is a gateway with a public URL") {
		t.Errorf("without gateways: %v", err)
	}
}

func TestRuleErrors(t *testing.T) {
	rules := cluster.Rules{
		Require: []cluster.Require{{Name: "none"}, {Name: "net", When: cluster.When{Prefixes: []netip.Prefix{
			{}, netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("::ffff:10.0.0.0/104"),
		}}, Labels: cluster.Labels{"zone": "a"}}},
		Prefer:    []cluster.Prefer{{Name: "empty", When: cluster.When{Claims: map[string]string{"": "\n"}}}, {Name: "long", Order: slices.Repeat([]cluster.Labels{{"a": "b"}}, 16)}},
		Canary:    &cluster.Canary{Name: "next", Share: math.NaN(), Labels: cluster.Labels{"zone": "{zone}"}},
		Policy:    9,
		Groups:    []cluster.Group{{}, {Name: "g", Channels: []string{":x"}}, {Name: "g", Channels: []string{"x"}}},
		Bound:     0.5,
		Addresses: 17,
	}
	_, err := cluster.NewRouter(&rules)
	for _, part := range []string{
		`require[0] "none": labels: none is given`, `require[1] "net": prefixes: `, "prefixes: one is not valid", "10.1.2.3/8 has bits beyond its length: write 10.0.0.0/8",
		"::ffff:10.0.0.0/104: write it as IPv4", `prefer[0] "empty": claims: "\n"`, "claims: a name is empty", "has a control character", "order: 0 entries, not 1 to 15",
		`prefer[1] "long": order: 16 entries`, `canary "next": share: NaN is not between 0 and 1`, "label zone: {zone} stands for a claim",
		"unknown route policy(9)", `groups[0] "": name: missing`, `groups[1] "g": channels: ":x"`, `groups[2] "g": name: another group has it`,
		"bound: 0.5 is not above 1", "addresses: 17 is not between 1 and 16",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v\ndoes not say %q", err, part)
		}
	}
	if _, err := cluster.NewRouter(&cluster.Rules{Require: make([]cluster.Require, 1001)}); err == nil {
		t.Error("1,001 rules are accepted")
	}
	if router, err := cluster.NewRouter(nil); err != nil || len(route(t, router, made(t, nodes(9)), cluster.Client{})) != 3 {
		t.Errorf("without rules: %v", err)
	}
}

// More gateways than the stack has room for.
func TestManyGateways(t *testing.T) {
	set := made(t, nodes(300))
	for _, policy := range policies {
		if got := route(t, routed(t, cluster.Rules{Policy: policy, Addresses: 16}), set, cluster.Client{User: "ann"}); len(got) != 16 {
			t.Errorf("%v: %v", policy, got)
		}
	}
}

// Route does not allocate, whatever the rules.
func TestRouteDoesNotAllocate(t *testing.T) {
	rules := cluster.Rules{
		Require: []cluster.Require{{When: cluster.When{Claims: map[string]string{"tier": ""}}, Labels: cluster.Labels{"tier": "{tier}"}}},
		Canary:  &cluster.Canary{Share: 0.5, Labels: cluster.Labels{"release": "next"}},
		Prefer:  []cluster.Prefer{{When: cluster.When{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Order: []cluster.Labels{{"zone": "{zone}"}}}},
	}
	c := cluster.Client{User: "ann", Channel: "quotes:x", Addr: netip.MustParseAddr("10.1.1.1"), Claims: map[string]string{"zone": "a"}}
	set, dst := made(t, nodes(200)), make([]*cluster.Member, 0, 3)
	for _, rules.Policy = range policies {
		router := routed(t, rules)
		if n := testing.AllocsPerRun(100, func() { dst, _ = router.Route(dst[:0], set, &c) }); n != 0 {
			t.Errorf("%v: %v allocations", rules.Policy, n)
		}
	}
}

// The claims that rules ask for are those of their conditions and those in their labels.
func TestClaims(t *testing.T) {
	rules := &cluster.Rules{
		Require: []cluster.Require{{When: cluster.When{Claims: cluster.Labels{"tier": "vip"}}, Labels: cluster.Labels{"a": "{plan}", "b": "plain"}}},
		Prefer:  []cluster.Prefer{{Order: []cluster.Labels{{"zone": "{zone}"}, {"zone": "{tier}"}}}},
	}
	if got, want := rules.Claims(), []string{"plan", "tier", "zone"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := new(cluster.Rules).Claims(); len(got) != 0 {
		t.Errorf("%q, want none", got)
	}
}
