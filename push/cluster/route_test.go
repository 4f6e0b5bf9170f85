package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/cluster"
)

// routed returns a router for rules, which have to be valid.
func routed(t fataler, rules cluster.Rules) *cluster.Router {
	t.Helper()
	router, err := cluster.NewRouter(&rules)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// route returns the IDs of the gateways of a client.
func route(t fataler, router *cluster.Router, set *cluster.Set, c cluster.Client) []string {
	t.Helper()
	members, err := router.Route(nil, set, &c)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.ID
	}
	return out
}

// firsts returns the first gateway of each of n users.
func firsts(t fataler, router *cluster.Router, set *cluster.Set, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		out[i] = route(t, router, set, cluster.Client{User: fmt.Sprint("user-", i), Random: uint64(i)})[0]
	}
	return out
}

func count(ids []string) map[string]int {
	out := make(map[string]int)
	for _, id := range ids {
		out[id]++
	}
	return out
}

var policies = []cluster.Policy{cluster.LeastLoaded, cluster.ByUser, cluster.ByChannel}

// anyRules draws rules of all kinds, for gateways that anyGateways draws.
func anyRules(t *rapid.T) cluster.Rules {
	labels := rapid.SampledFrom([]cluster.Labels{
		{"zone": "a"}, {"zone": "b", "tier": ""}, {"tier": "vip"}, {"tier": ""}, {"zone": "{zone}"}, {"zone": "{zone}", "tier": "{tier}"},
	})
	fixed := labels.Filter(func(l cluster.Labels) bool { return !strings.HasPrefix(l["zone"], "{") })
	when := rapid.Custom(func(t *rapid.T) cluster.When {
		return rapid.SampledFrom([]cluster.When{
			{},
			{Claims: map[string]string{"tier": "vip"}},
			{Claims: map[string]string{"tier": ""}},
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}},
		}).Draw(t, "when")
	})
	rules := cluster.Rules{
		Policy:    rapid.SampledFrom(policies).Draw(t, "policy"),
		Bound:     rapid.SampledFrom([]float64{0, -1, 1.1}).Draw(t, "bound"),
		Addresses: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "addresses"),
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "hard rules") {
		rules.Require = append(rules.Require, cluster.Require{Name: fmt.Sprint("r", i), When: when.Draw(t, "when"), Labels: labels.Draw(t, "labels")})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "preferences") {
		rules.Prefer = append(rules.Prefer, cluster.Prefer{
			Name: fmt.Sprint("p", i), When: when.Draw(t, "when"), Order: rapid.SliceOfN(labels, 1, 3).Draw(t, "order"),
		})
	}
	if rapid.Bool().Draw(t, "canary") {
		rules.Canary = &cluster.Canary{Name: "next", Share: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "share"), Labels: fixed.Draw(t, "labels")}
	}
	return rules
}

func anyGateways(t *rapid.T) []cluster.Member {
	members := nodes(rapid.IntRange(1, 9).Draw(t, "gateways"))
	for i := range members {
		m := &members[i]
		m.Weight = rapid.IntRange(1, 4).Draw(t, "weight")
		m.Sessions = rapid.IntRange(0, 30).Draw(t, "sessions")
		m.Capacity = rapid.SampledFrom([]int{0, 0, 10, 40}).Draw(t, "capacity")
		m.Draining = rapid.IntRange(0, 5).Draw(t, "draining") == 0
		m.Labels = map[string]string{
			"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), "tier": rapid.SampledFrom([]string{"", "vip"}).Draw(t, "tier"),
		}
	}
	return members
}

func anyClient() *rapid.Generator[cluster.Client] {
	return rapid.Custom(func(t *rapid.T) cluster.Client {
		c := cluster.Client{
			User:    rapid.StringMatching(`[a-z]?`).Draw(t, "user"),
			Channel: rapid.SampledFrom([]string{"", "quotes:ACME", "news:x"}).Draw(t, "channel"),
			Random:  rapid.Uint64().Draw(t, "random"),
			Claims:  map[string]string{},
		}
		for name, values := range map[string][]string{"tier": {"", "vip"}, "zone": {"", "a", "b", "x"}} {
			if value := rapid.SampledFrom(values).Draw(t, name); value != "" {
				c.Claims[name] = value
			}
		}
		if addr := rapid.SampledFrom([]string{"", "10.1.1.1", "::ffff:10.1.1.1", "192.0.2.1", "2001:db8::1"}).Draw(t, "addr"); addr != "" {
			c.Addr = netip.MustParseAddr(addr)
		}
		return c
	})
}

// Whatever the rules: every node has the same answer, no hard rule is broken, gateways that are full come last and draining ones only if
// there are no others, and the explanation ends where Route does.
func TestRouteProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, rules, c := anyGateways(t), anyRules(t), anyClient().Draw(t, "client")
		router, set := routed(t, rules), made(t, members)
		got, err := router.Route(nil, set, &c)
		e := router.Explain(set, &c)
		checkSteps(t, &e)

		slices.Reverse(members)
		again, errAgain := router.Route(nil, made(t, members), &c)
		if !slices.EqualFunc(got, again, func(a, b *cluster.Member) bool { return a.Equal(b) }) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("%v (%v), and for another order of the list %v (%v)", got, err, again, errAgain)
		}

		allowed := 0
		for i := range members {
			if router.Allows(&members[i], &c) {
				allowed++
			}
		}
		if err != nil {
			if !errors.Is(err, cluster.ErrNoGateway) || allowed > 0 || e.Problem != err.Error() {
				t.Fatalf("%v, %d are allowed, and explained is\n%v", err, allowed, &e)
			}
			return
		}
		for i, m := range got {
			switch before := got[max(0, i-1)]; {
			case !router.Allows(m, &c):
				t.Fatalf("%s is not allowed", m.ID)
			case i > 0 && m.Draining != before.Draining, i > 0 && before.IsFull() && !m.IsFull():
				t.Fatalf("%+v comes after %+v", m, before)
			case slices.Contains(got[:i], m):
				t.Fatalf("%s comes twice", m.ID)
			}
			usable := func(other cluster.Member) bool {
				return router.Allows(&other, &c) && !other.Draining && (m.Draining || !other.IsFull())
			}
			if i == 0 && (m.Draining || m.IsFull()) && slices.ContainsFunc(members, usable) {
				t.Fatalf("%+v comes first, though there are others", m)
			}
			if i >= len(e.Members) || e.Members[i] != m.ID {
				t.Fatalf("%v, but explained is\n%v", got, &e)
			}
		}
		if want := min(allowed, max(3, rules.Addresses)); rules.Addresses != 1 && len(got) > want || len(got) != len(e.Members) {
			t.Fatalf("%d gateways, want %d:\n%v", len(got), want, &e)
		}
	})
}

// The class of a gateway comes before everything else: users of the canary get gateways of the canary, clients of a zone get those of the zone.
func TestPreferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := nodes(rapid.IntRange(1, 9).Draw(t, "gateways"))
		for i := range members {
			members[i].Labels = map[string]string{
				"zone": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone"), "release": rapid.SampledFrom([]string{"", "next"}).Draw(t, "release"),
			}
			members[i].Sessions = rapid.IntRange(0, 30).Draw(t, "sessions")
		}
		set := made(t, members)
		share := rapid.SampledFrom([]float64{0, 1}).Draw(t, "share")
		router := routed(t, cluster.Rules{
			Policy: rapid.SampledFrom(policies).Draw(t, "policy"), Addresses: 9,
			Canary: &cluster.Canary{Share: share, Labels: cluster.Labels{"release": "next"}},
			Prefer: []cluster.Prefer{
				{Name: "claim", Order: []cluster.Labels{{"zone": "{zone}"}}},
				{Name: "near", When: cluster.When{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Order: []cluster.Labels{{"zone": "a"}}},
				{Name: "far", Order: []cluster.Labels{{"zone": "c"}, {"zone": "{zone}"}, {"zone": "d"}, {"zone": "b"}}},
			},
		})
		c := anyClient().Draw(t, "client")
		order := []string{"c", "d", "b"}
		switch zone := c.Claims["zone"]; {
		case zone != "":
			order = []string{zone}
		case c.Addr.IsValid() && strings.HasPrefix(c.Addr.Unmap().String(), "10."):
			order = []string{"a"}
		}
		class := func(id string) int {
			m := set.Member(id)
			class := slices.Index(order, m.Labels["zone"])
			if class < 0 {
				class = len(order)
			}
			if in := share == 1 && c.User != ""; in != (m.Labels["release"] == "next") {
				class += 100
			}
			return class
		}
		if got := route(t, router, set, c); !slices.IsSortedFunc(got, func(a, b string) int { return class(a) - class(b) }) || len(got) != len(members) {
			t.Fatalf("%+v gets %v", c, got)
		}
	})
}

// The same user gets the same gateway. A gateway that leaves moves only its own users, and one that joins takes some and moves no others.
func TestUserMoves(t *testing.T) {
	const users = 20_000
	members := nodes(8)
	for i := range members {
		members[i].Weight = 50 + 50*(i%2)
	}
	router := routed(t, cluster.Rules{Policy: cluster.ByUser})
	before := firsts(t, router, made(t, members), users)
	if again := firsts(t, router, made(t, members), users); !slices.Equal(before, again) {
		t.Fatal("the second time users get other gateways")
	}
	for id, n := range count(before) {
		want := float64(users) * float64(made(t, members).Member(id).Weight) / 600
		if math.Abs(float64(n)-want) > want/10 {
			t.Errorf("%s has %d users, want %.0f", id, n, want)
		}
	}
	gone := members[3].ID
	for i, id := range firsts(t, router, made(t, slices.Delete(slices.Clone(members), 3, 4)), users) {
		if (id != before[i]) != (before[i] == gone) {
			t.Fatalf("user %d: from %s to %s when %s left", i, before[i], id, gone)
		}
	}
	draining := slices.Clone(members)
	draining[3].Draining = true
	for i, id := range firsts(t, router, made(t, draining), users) {
		if (id != before[i]) != (before[i] == gone) {
			t.Fatalf("user %d: from %s to %s when %s drains", i, before[i], id, gone)
		}
	}
}

// crowd is clients that connect one after the other, each to its first gateway, whose sessions are reported at once.
func crowd(t fataler, router *cluster.Router, set *cluster.Set, clients []cluster.Client) (where []string, after *cluster.Set) {
	t.Helper()
	sessions := make(map[string]int)
	for i := range set.Members() {
		sessions[set.Members()[i].ID] = set.Members()[i].Sessions
	}
	for i := range clients {
		id := route(t, router, set, clients[i])[0]
		where = append(where, id)
		sessions[id]++
		set = set.WithSessions(map[string]int{id: sessions[id]})
	}
	return where, set
}

func usersOf(n int) []cluster.Client {
	out := make([]cluster.Client, n)
	for i := range out {
		out[i] = cluster.Client{User: fmt.Sprint("user-", i), Random: rand.New(rand.NewPCG(uint64(i), 0)).Uint64(), Channel: "quotes:ACME"}
	}
	return out
}

// If loads are reported, no gateway gets more than 1.25 times its fair share, whatever clients have in common.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := nodes(rapid.IntRange(1, 8).Draw(t, "gateways"))
		weight := 0
		for i := range members {
			members[i].Weight = rapid.IntRange(1, 3).Draw(t, "weight")
			weight += members[i].Weight
		}
		policy := rapid.SampledFrom([]cluster.Policy{cluster.ByUser, cluster.ByChannel}).Draw(t, "policy")
		n := rapid.IntRange(1, 300).Draw(t, "clients")
		clients := usersOf(n)
		if rapid.Bool().Draw(t, "one user") {
			for i := range clients {
				clients[i].User = "ann"
			}
		}
		_, set := crowd(t, routed(t, cluster.Rules{Policy: policy}), made(t, members), clients)
		for _, m := range set.Members() {
			if most := math.Ceil(1.25 * float64(n) * float64(m.Weight) / float64(weight)); float64(m.Sessions) > most {
				t.Fatalf("%s with weight %d of %d has %d of %d sessions", m.ID, m.Weight, weight, m.Sessions, n)
			}
		}
	})
}

// What a full gateway has makes no difference for the others: their fair share is that of what is left.
func TestBoundWithoutFull(t *testing.T) {
	members := nodes(3)
	members[0].Sessions, members[1].Sessions, members[2].Sessions = 400, 500, 100 // with the full one, node-001 would be over its bound
	members[2].Capacity = 100
	set := made(t, members)
	for i := range 100 {
		c := cluster.Client{User: fmt.Sprint(i)}
		got := route(t, routed(t, cluster.Rules{Policy: cluster.ByUser}), set, c)
		if want := route(t, routed(t, cluster.Rules{Policy: cluster.ByUser, Bound: -1}), set, c); !slices.Equal(got, want) || got[2] != "node-002" {
			t.Fatalf("%s gets %v, by hash %v", c.User, got, want)
		}
	}
}

// When a gateway joins under bounded load, users move if it is their best gateway. No more others move than there are users who were not at
// their best gateway before, or are not after: the overflow.
func TestBoundMoves(t *testing.T) {
	const users = 3000
	members := nodes(6)
	router := routed(t, cluster.Rules{Policy: cluster.ByUser})
	unbound := routed(t, cluster.Rules{Policy: cluster.ByUser, Bound: -1})
	clients := usersOf(users)
	for i := range clients[:users/2] { // half are one user's sessions, so that there is an overflow
		clients[i].User = "bot"
	}
	before, _ := crowd(t, router, made(t, members[:5]), clients)
	after, _ := crowd(t, router, made(t, members), clients)
	moved, overflow, own := 0, 0, 0
	for i := range clients {
		first, then := route(t, unbound, made(t, members[:5]), clients[i])[0], route(t, unbound, made(t, members), clients[i])[0]
		switch away := before[i] != first || after[i] != then; {
		case away:
			overflow++
		case then == members[5].ID:
			own++
		}
		if before[i] != after[i] {
			moved++
		}
	}
	if moved > own+overflow || overflow == 0 || overflow > users*6/10 {
		t.Errorf("%d of %d moved; %d belong to the new gateway, the overflow is %d", moved, users, own, overflow)
	}
}

// Users are spread by weight whatever the policy, with loads and without.
func TestShares(t *testing.T) {
	const users = 10_000
	members := nodes(5)
	for i := range members {
		members[i].Weight = 100 + 100*(i%3)
	}
	for _, policy := range []cluster.Policy{cluster.LeastLoaded, cluster.ByUser} {
		router := routed(t, cluster.Rules{Policy: policy})
		loaded, _ := crowd(t, router, made(t, members), usersOf(users))
		for name, where := range map[string][]string{"without loads": firsts(t, router, made(t, members), users), "with loads": loaded} {
			for id, n := range count(where) {
				want := users * float64(made(t, members).Member(id).Weight) / 900
				if math.Abs(float64(n)-want) > want/10 {
					t.Errorf("%v, %s: %s has %d users, want %.0f", policy, name, id, n, want)
				}
			}
		}
	}
}

// With two choices the busiest gateway has hardly more sessions than the mean.
func TestLeastLoaded(t *testing.T) {
	const users = 5000
	where, _ := crowd(t, routed(t, cluster.Rules{}), made(t, nodes(10)), usersOf(users))
	for id, n := range count(where) {
		if n > users/10*11/10 {
			t.Errorf("%s has %d of %d", id, n, users)
		}
	}
	got := count(firsts(t, routed(t, cluster.Rules{}), made(t, append(nodes(3), cluster.Member{ID: "busy", Public: "ws://busy.test", Sessions: 100})), 2000))
	if got["busy"] > 200 { // both choices: one in 16
		t.Errorf("a busy gateway gets %d of 2,000 clients", got["busy"])
	}
}

// The canary has its share of the users, and those in it stay in when the share grows.
func TestCanary(t *testing.T) {
	const users = 100_000
	members := nodes(4)
	members[1].Labels = map[string]string{"release": "next"}
	set := made(t, members)
	was := make([]bool, users)
	for _, share := range []float64{0, 0.01, 0.05, 0.3, 0.75, 1} {
		router := routed(t, cluster.Rules{Policy: cluster.ByUser, Canary: &cluster.Canary{Name: "next", Share: share, Labels: members[1].Labels}})
		in := 0
		for i, id := range firsts(t, router, set, users) {
			isIn := id == members[1].ID
			if was[i] && !isIn {
				t.Fatalf("at %v user %d leaves the canary", share, i)
			}
			if was[i] = isIn; isIn {
				in++
			}
		}
		if math.Abs(float64(in)/users-share) > 0.01 {
			t.Errorf("%d of %d users are in a canary of %v", in, users, share)
		}
	}
	// Another canary has other users, and without a gateway of the canary its users get the others.
	half := func(name string) []string {
		return firsts(t, routed(t, cluster.Rules{Policy: cluster.ByUser, Canary: &cluster.Canary{Name: name, Share: 0.5, Labels: members[1].Labels}}), set, 1000)
	}
	one, two, both := half("one"), half("two"), 0
	for i := range one {
		if one[i] == members[1].ID && two[i] == members[1].ID {
			both++
		}
	}
	if both < 200 || both > 300 {
		t.Errorf("%d of 1,000 users are in two canaries of a half", both)
	}
	all := routed(t, cluster.Rules{Canary: &cluster.Canary{Share: 1, Labels: cluster.Labels{"release": "none"}}})
	if got := route(t, all, set, cluster.Client{User: "ann"}); len(got) != 3 {
		t.Errorf("without a gateway of the canary: %v", got)
	}
}

// Clients of a group of channels are on as few gateways as the bound allows, and groups are spread.
func TestChannelGroups(t *testing.T) {
	router := routed(t, cluster.Rules{
		Policy: cluster.ByChannel,
		Groups: []cluster.Group{{Name: "shanghai", Channels: []string{"quotes:SH*", "depth:SH*"}}, {Name: "quotes", Channels: []string{"index:*"}}},
	})
	for channel, want := range map[string]string{"quotes:SH600": "shanghai", "depth:SH1": "shanghai", "quotes:SZ1": "quotes", "index:A": "quotes", "plain": "", "$news:x": "news"} {
		if got := router.Group(channel); got != want {
			t.Errorf("%s belongs to %q, want %q", channel, got, want)
		}
	}
	set := made(t, nodes(16))
	used := make(map[string]bool)
	for i := range 100 {
		c := cluster.Client{User: fmt.Sprint(i), Channel: []string{"quotes:SH600", "depth:SH1"}[i%2]}
		if got, want := route(t, router, set, c), route(t, router, set, cluster.Client{Channel: "depth:SH"}); !slices.Equal(got, want) {
			t.Fatalf("%v and %v, for one group", got, want)
		}
		used[route(t, router, set, cluster.Client{Channel: fmt.Sprintf("ns%d:x", i)})[0]] = true
	}
	if len(used) < 14 {
		t.Errorf("100 groups are on %d of 16 gateways", len(used))
	}
	var clients []cluster.Client
	for i := range 4000 { // four groups, on 16 gateways: each needs four at least, and with loads a little more
		clients = append(clients, cluster.Client{User: fmt.Sprint(i), Channel: fmt.Sprintf("ns%d:x", i%4)})
	}
	where, _ := crowd(t, router, set, clients)
	replicas := make(map[[2]string]bool)
	for i, id := range where {
		replicas[[2]string{clients[i].Channel, id}] = true
	}
	if len(replicas) > 40 { // by user there are 64
		t.Errorf("16 gateways hold %d replicas of four groups", len(replicas))
	}
	if one, two := route(t, router, set, cluster.Client{User: "ann"}), route(t, routed(t, cluster.Rules{Policy: cluster.ByUser}), set, cluster.Client{User: "ann"}); !slices.Equal(one, two) {
		t.Errorf("without a channel %v, by user %v", one, two)
	}
}
