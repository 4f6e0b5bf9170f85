package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/cluster"
)

// A gateway joins, leaves and comes back, with 10,000 sessions. Only those move whose place has changed, and the overflow; then everything is at rest.
func TestRebindUsers(t *testing.T) {
	for name, tt := range map[string]struct{ users, of int }{"one session a user": {10_000, 0}, "a user with 1,200 of 4,000": {4000, 1200}} {
		t.Run(name, func(t *testing.T) {
			users, of := tt.users, tt.of
			members, clients := nodes(6), usersOf(users)
			for i := range clients[:of] {
				clients[3*i].User = "bot"
			}
			w := newWorld(t, cluster.Rules{Policy: cluster.ByUser}, members[:5], clients, 200)
			check := func(what, id string, before int) {
				t.Helper()
				w.rest(what)
				own, away := w.homes(id)
				if w.moved > own+before+away {
					t.Errorf("%s: %d sessions moved; %d belong to %s, the overflow was %d and is %d", what, w.moved, own, id, before, away)
				}
				if of == 0 && (own > users/len(w.members)*11/10 || w.moved < own*9/10 || before+away > users/20) {
					t.Errorf("%s: of %d sessions %d belong to %s, %d moved; the overflow was %d and is %d", what, users, own, id, w.moved, before, away)
				}
				skew, _ := w.skew()
				t.Logf("%s: %d of %d sessions moved, %v; %d belong to it; the overflow was %d and is %d; skew %.2f", what, w.moved, users, w.reasons,
					own, before, away, skew)
				w.moved = 0
				clear(w.reasons)
			}
			_, away := w.homes("")
			w.run(10 * time.Minute)
			if w.moved > away { // the first clients come when a session is more than a fair share
				t.Errorf("%d sessions move though nothing has changed; %d were not at their best place", w.moved, away)
			}
			w.moved = 0
			clear(w.reasons)

			_, away = w.homes("")
			w.join(members[5])
			check("a gateway joins", members[5].ID, away)

			w.leave(members[2].ID)
			w.run(20 * time.Second)
			_, away = w.homes("")
			w.join(members[2])
			check("it leaves and comes back", members[2].ID, away)
		})
	}
}

// Without places, sessions move only because of the load: not at a small skew, and at a large one until it is small.
func TestRebindLoads(t *testing.T) {
	const users = 2000
	members := nodes(6)
	w := newWorld(t, cluster.Rules{}, members[:5], usersOf(users), 100)
	w.join(members[5]) // the others have 1.2 times their share
	w.rest("the sixth joins")
	if w.moved != 0 {
		t.Errorf("%d sessions move at a skew of 1.2", w.moved)
	}
	w = newWorld(t, cluster.Rules{}, members[:2], usersOf(users), 100)
	w.join(members[2]) // the others have 1.5 times their share
	w.rest("the third joins")
	if most := users * 5 / 24; w.moved > most || w.moved < users/8 { // from 1.5 to less than 1.25 times a third
		t.Errorf("%d sessions moved, at most %d had to", w.moved, most)
	}
}

// Loads that change a little move no session, whatever the policy.
func TestRebindHysteresis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "gateways")
		members := nodes(n)
		for i := range members {
			members[i].Sessions = 1000
		}
		router := routed(t, cluster.Rules{Policy: rapid.SampledFrom(policies).Draw(t, "policy")})
		var here []cluster.Session
		for i := range 50 * n {
			c := cluster.Client{User: fmt.Sprint(i), Channel: fmt.Sprintf("ns%d:x", i)}
			if route(t, routed(t, cluster.Rules{Policy: cluster.ByChannel}), made(t, members), c)[0] == "node-000" {
				c.User = "" // by channel also if the policy is ByUser, which then has no place for it
				here = append(here, cluster.Session{Client: c})
			}
		}
		rebind := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: router})
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			sessions := make(map[string]int)
			for _, m := range members {
				sessions[m.ID] = rapid.IntRange(900, 1100).Draw(t, m.ID) // at most 1.21 times the mean
			}
			if moves, next := rebind.Step(time.Unix(int64(1000*i), 0), made(t, members).WithSessions(sessions), here); len(moves) > 0 || !next.IsZero() {
				t.Fatalf("%v: %v moves, the next at %v", sessions, moves, next)
			}
		}
	})
}

// Whatever happens to a small cluster, in whatever order: the world's own checks hold (the rate, the cool-down, hard rules), and it comes to rest.
func TestRebindProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := nodes(6)
		capacities := rapid.SampledFrom([][]int{{0}, {0, 25, 60}}).Draw(t, "capacities")
		for i := range all {
			all[i].Weight = rapid.IntRange(1, 2).Draw(t, "weight")
			all[i].Capacity = rapid.SampledFrom(capacities).Draw(t, "capacity")
			all[i].Labels = map[string]string{"zone": string(rune('a' + i%2)), "release": []string{"", "next"}[i/4]}
		}
		rules := cluster.Rules{Policy: rapid.SampledFrom(policies).Draw(t, "policy")}
		if rapid.Bool().Draw(t, "zones") {
			rules.Prefer = []cluster.Prefer{{Order: []cluster.Labels{{"zone": "{zone}"}}}}
		}
		if rapid.Bool().Draw(t, "canary") {
			rules.Canary = &cluster.Canary{Share: 0.3, Labels: cluster.Labels{"release": "next"}}
		}
		clients := usersOf(rapid.IntRange(1, 150).Draw(t, "clients"))
		for i := range clients {
			clients[i].Channel = rapid.SampledFrom([]string{"", "a:x", "b:x"}).Draw(t, "channel")
			clients[i].Claims = map[string]string{"zone": string(rune('a' + i%3))}
		}
		w := newWorld(t, rules, all[:rapid.IntRange(1, 6).Draw(t, "gateways")], clients, rapid.SampledFrom([]int{1, 3, 50}).Draw(t, "rate"))
		w.atOnce = rapid.SampledFrom([]int{10, 1000}).Draw(t, "sessions at once")
		for range rapid.IntRange(0, 6).Draw(t, "events") {
			m := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
			switch up := w.members[m.ID] != nil; rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				w.replace(rapid.IntRange(0, 100).Draw(t, "percent"))
			case 1:
				if up {
					w.drain(m.ID)
				}
			default:
				if !up {
					w.join(m)
				} else if len(w.members) > 1 {
					w.leave(m.ID)
				}
			}
			w.run(time.Duration(rapid.IntRange(0, 100).Draw(t, "ticks")) * tick)
		}
		w.run(10 * time.Minute) // at a rate of 1
		w.rest("at the end")
	})
}

// reasonsWorld returns a set in which each rule has a gateway, its router, and sessions of node-000 that each have a reason to move.
func reasonsWorld(t fataler) (members []cluster.Member, router *cluster.Router, sessions []cluster.Session) {
	members = nodes(4)
	members[0].Labels = map[string]string{"zone": "a"}
	members[1].Labels = map[string]string{"zone": "b"}
	members[2].Labels = map[string]string{"zone": "a", "tier": "vip"}
	members[3].Labels = map[string]string{"zone": "a", "release": "next"}
	router = routed(t, cluster.Rules{
		Policy:  cluster.ByUser,
		Require: []cluster.Require{{Name: "tier", Labels: cluster.Labels{"tier": "{tier}"}}},
		Canary:  &cluster.Canary{Name: "next", Share: 0.5, Labels: cluster.Labels{"release": "next"}},
		Prefer:  []cluster.Prefer{{Name: "near", Order: []cluster.Labels{{"zone": "{zone}"}}}},
	})
	user := func(in bool) string { // one that is in the canary, or not
		for i := 0; ; i++ {
			if id := fmt.Sprint("u", i); (route(t, router, made(t, members), cluster.Client{User: id})[0] == "node-003") == in {
				return id
			}
		}
	}
	add := func(in bool, tier, zone string) {
		sessions = append(sessions, cluster.Session{Client: cluster.Client{User: user(in), Claims: map[string]string{"tier": tier, "zone": zone}}})
	}
	add(false, "", "a") // is where it belongs
	add(false, "", "b")
	add(true, "", "b")
	add(true, "vip", "b")
	add(true, "gold", "b") // no gateway is for it
	return members, router, sessions
}

func rebinding(t fataler, o cluster.RebindOptions) *cluster.Rebind {
	t.Helper()
	r, err := cluster.NewRebind(&o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each reason, and which goes first.
func TestRebindReasons(t *testing.T) {
	members, router, sessions := reasonsWorld(t)
	now := time.Unix(1000, 0)
	moves, _ := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: router}).Step(now, made(t, members), sessions)
	var got []string
	for _, m := range moves {
		got = append(got, fmt.Sprintf("%d to %s: %v", m.Session, m.To.ID, m.Reason))
	}
	want := []string{"3 to node-002: not allowed", "2 to node-003: canary changed", "1 to node-001: preferred elsewhere"}
	if !slices.Equal(got, want) {
		t.Errorf("moves %q, want %q", got, want)
	}
	// A gateway that is draining, or not in the set, moves nothing.
	members[0].Draining = true
	for _, self := range []string{"node-000", "none"} {
		r := rebinding(t, cluster.RebindOptions{Self: self, Router: router})
		if moves, next := r.Step(now, made(t, members), sessions); moves != nil || !next.IsZero() {
			t.Errorf("%s moves %v, then at %v", self, moves, next)
		}
	}
}

// Without a cool-down and without time to settle, sessions move at once, and nothing is waited for.
func TestRebindAtOnce(t *testing.T) {
	members, router, sessions := reasonsWorld(t)
	r := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: router, Cooldown: -1, Settle: -1})
	now := time.Unix(1000, 0)
	for i := range sessions {
		sessions[i].Since = now
	}
	if moves, next := r.Step(now, made(t, members), sessions); len(moves) != 3 || !next.IsZero() {
		t.Errorf("%v, then at %v", moves, next)
	}
}

// With a rate of two a second one session moves after the other. One that has just connected waits for its cool-down.
func TestRebindTimes(t *testing.T) {
	members, router, sessions := reasonsWorld(t)
	set, now := made(t, members), time.Unix(1000, 0)
	slow := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: router, Rate: 2})
	sessions[1].Since = now
	first, next := slow.Step(now, set, sessions)
	if len(first) != 1 || first[0].Session != 3 || !next.Equal(now.Add(550*time.Millisecond)) {
		t.Fatalf("%v, then at %v", first, next)
	}
	if early, _ := slow.Step(next.Add(-1), set, sessions[:3]); len(early) != 0 {
		t.Errorf("too early: %v", early)
	}
	if second, _ := slow.Step(next, set, sessions[:3]); len(second) != 1 || second[0].Session != 2 {
		t.Errorf("then %v", second)
	}
	if third, at := slow.Step(now.Add(30*time.Second), set, sessions[:2]); len(third) != 0 || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("in the cool-down %v, then at %v", third, at)
	}
	if third, at := slow.Step(now.Add(time.Minute), set, sessions[:2]); len(third) != 1 || third[0].Session != 1 || !at.Equal(now.Add(63*time.Second)) {
		t.Errorf("after the cool-down %v, then at %v", third, at)
	}
}

// Gateways that do not know of each other's moves do not fill the same one together: each takes its part of what an empty one may get.
func TestRebindPeers(t *testing.T) {
	members := nodes(10)
	for i := range members {
		members[i].Sessions = 1000
	}
	members[0].Sessions, members[9].Sessions = 3000, 0 // a fair share is 1,100
	rebind := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: routed(t, cluster.Rules{}), Rate: 100_000})
	sessions := make([]cluster.Session, 3000)
	moves, next := rebind.Step(time.Unix(1000, 0), made(t, members), sessions)
	got := make(map[string]int)
	for _, m := range moves {
		got[m.To.ID]++
	}
	if n := got["node-009"]; n < 100 || n > 138 { // a ninth of 1.125 times 1,100, rounded up
		t.Errorf("%d sessions move to the empty gateway: %v", n, got)
	}
	if want := time.Unix(1000, 0).Add(cluster.DefaultSettle); !next.Equal(want) {
		t.Errorf("the next time is %v, want %v", next, want)
	}
	if again, _ := rebind.Step(next, made(t, members), sessions); len(again) == 0 {
		t.Error("when these moves have settled no others follow")
	}
}

// A gateway that is almost full gets no session, however empty it is for its weight.
func TestRebindCapacity(t *testing.T) {
	members := nodes(3)
	members[0].Sessions, members[1].Sessions, members[2].Sessions = 3000, 90, 500
	members[1].Capacity, members[2].Capacity = 100, 1000
	rebind := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: routed(t, cluster.Rules{}), Rate: 1000})
	moves, _ := rebind.Step(time.Unix(1000, 0), made(t, members), make([]cluster.Session, 3000))
	if len(moves) == 0 {
		t.Error("nothing moves")
	}
	for _, m := range moves {
		if m.To.ID != "node-002" || m.Reason != cluster.Overloaded {
			t.Fatalf("%d to %s: %v", m.Session, m.To.ID, m.Reason)
		}
	}
}

func TestRebindErrors(t *testing.T) {
	_, err := cluster.NewRebind(&cluster.RebindOptions{Rate: -1, Skew: 1})
	for _, part := range []string{
		"self: missing", "router: missing", "rate: -1 is not between 1 and 100000", "skew: 1 is not above 1",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	_, err = cluster.NewRebind(&cluster.RebindOptions{Self: "a", Router: routed(t, cluster.Rules{Bound: 2}), Skew: 1.5})
	if err == nil || !strings.Contains(err.Error(), "skew: 1.5 is less than the bound 2") {
		t.Errorf("a skew below the bound: %v", err)
	}
}
