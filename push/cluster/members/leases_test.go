package members_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

// Nodes that share a broker find each other, and notice within a second that one has left. Nodes of another cluster are not heard.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		var said discoverytest.Output
		a := join(t, node("a"), members.NewLeases(b), &said)
		want(t, a, "alone", "a")
		stranger := node("x")
		stranger.Cluster = "other"
		x := join(t, stranger, members.NewLeases(b), &said)
		nameless := node("y")
		nameless.Cluster = ""
		join(t, nameless, members.NewLeases(b), &said)
		second, third := join(t, node("b"), members.NewLeases(b), &said), join(t, node("c"), members.NewLeases(b), &said)
		pass(time.Second + time.Millisecond)
		for _, d := range []*members.Directory{a, second, third} {
			want(t, d, "when all have joined", "a b c")
		}
		want(t, x, "in the other cluster", "x")
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, second, "when it is closed", "a b c")
		pass(time.Second)
		want(t, a, "when one has left", "a c")
		want(t, third, "when one has left", "a c")
		if said.String() != "" {
			t.Errorf("it was logged:\n%s", &said)
		}
	})
}

// A node that is killed is a member for three seconds more, and no more after five.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		killed := newFlaky(b)
		a, c := join(t, node("a"), members.NewLeases(b), nil), join(t, node("c"), members.NewLeases(b), nil)
		pass(300 * time.Millisecond)
		join(t, node("b"), members.NewLeases(killed), nil)
		pass(10*time.Second + 500*time.Millisecond)
		want(t, a, "before", "a b c")
		killed.state.Store(failing)
		pass(3 * time.Second)
		want(t, a, "three seconds after", "a b c")
		pass(2 * time.Second)
		want(t, a, "five seconds after", "a c")
		want(t, c, "five seconds after", "a c")
	})
}

// What matters is announced at once, and the load with the next announcement. Others list the leases each second.
func TestUpdateOfLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		puts := newFlaky(b)
		a, other := join(t, node("a"), members.NewLeases(puts), nil), join(t, node("b"), members.NewLeases(b), nil)
		pass(2*time.Second + 500*time.Millisecond)
		announced := func(what string) bool {
			t.Helper()
			synctest.Wait()
			leases, err := b.ListLeases(t.Context(), "member/test\x00a\x00")
			if err != nil || len(leases) != 1 {
				t.Fatalf("leases: %v (%v)", leases, err)
			}
			return strings.Contains(string(leases[0].Value), what)
		}
		update(t, a, func(m *cluster.Member) { m.Sessions = 7 })
		if announced(`"sessions":7`) {
			t.Error("the load was announced at once")
		}
		if pass(500 * time.Millisecond); !announced(`"sessions":7`) {
			t.Error("the load was not announced with the next beat")
		}
		pass(500 * time.Millisecond)
		update(t, a, func(m *cluster.Member) { m.Draining = true })
		if !announced(`"draining":true`) {
			t.Error("draining was not announced at once")
		}
		pass(time.Second)
		want(t, other, "a second later", "a! b")
		before := puts.puts.Load()
		update(t, a, func(*cluster.Member) {})
		if synctest.Wait(); puts.puts.Load() != before {
			t.Error("it was announced that nothing has changed")
		}
	})
}

// While the broker is away, whether it fails or hangs, no set changes. When it is back, all leases have expired, and still no node vanishes, apart
// from one that was killed meanwhile.
func TestBrokerAway(t *testing.T) {
	for name, state := range map[string]int32{"fails": failing, "hangs": hanging} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t)
				ours, killed := newFlaky(b), newFlaky(b)
				var said discoverytest.Output
				a, second := join(t, node("a"), members.NewLeases(ours), &said), join(t, node("b"), members.NewLeases(ours), nil)
				join(t, node("c"), members.NewLeases(killed), nil)
				pass(2*time.Second + 500*time.Millisecond)
				watched := watchAll(t, a)
				ours.state.Store(state)
				killed.state.Store(failing) // for ever
				pass(time.Minute)
				update(t, a, func(m *cluster.Member) { m.Draining = true })
				pass(time.Minute)
				want(t, a, "while the broker is away", "a! b c")
				want(t, second, "while the broker is away", "a b c")
				if n := times(&said, "the source does not answer"); n != 1 {
					t.Errorf("it was logged %d times:\n%s", n, &said)
				}
				ours.state.Store(up)
				pass(10 * time.Second)
				want(t, second, "when the broker is back", "a! b")
				if got, want := strings.Join(watched(), "; "), "a b c; a! b c; a! b"; got != want {
					t.Errorf("the sets were %q, want %q", got, want)
				}
				if times(&said, "answers again") != 1 {
					t.Errorf("it was not logged that all is well again:\n%s", &said)
				}
				second.Close(t.Context())
				pass(time.Second)
				want(t, a, "when one has left", "a!")
			})
		})
	}
}

// A node whose lists fail or hang keeps its set, and stays a member of the others' sets.
func TestOnlyListsFail(t *testing.T) {
	for name, state := range map[string]int32{"fail": failing, "hang": hanging} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t)
				broken := newFlaky(b)
				var said discoverytest.Output
				a, second := join(t, node("a"), members.NewLeases(broken), &said), join(t, node("b"), members.NewLeases(b), nil)
				pass(2*time.Second + 500*time.Millisecond)
				watched := watchAll(t, second)
				broken.lists.Store(state)
				pass(time.Minute)
				want(t, a, "without lists", "a b")
				if got := strings.Join(watched(), "; "); got != "a b" {
					t.Errorf("the sets of the other node were %q", got)
				}
				broken.lists.Store(up)
				pass(3 * time.Second)
				if times(&said, "the source does not answer") != 1 || times(&said, "the source answers again") != 1 {
					t.Errorf("it was logged:\n%s", &said)
				}
			})
		})
	}
}

// A broker that was restarted and has lost all leases, without failing, makes no node vanish.
func TestBrokerWiped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, killed := newFlaky(newBroker(t)), newFlaky(newBroker(t))
		killed.leases.Store(b.leases.Load())
		var all []*members.Directory
		var watched []func() []string
		for i := range 5 { // at different times
			all = append(all, join(t, node(string(rune('a'+i))), members.NewLeases(b), nil))
			pass(150 * time.Millisecond)
		}
		join(t, node("x"), members.NewLeases(killed), nil)
		pass(3 * time.Second)
		for _, d := range all {
			want(t, d, "before", "a b c d e x")
			watched = append(watched, watchAll(t, d))
		}
		for range 3 {
			pass(20 * time.Second)
			b.leases.Store(newBroker(t))
		}
		pass(10 * time.Second)
		for _, w := range watched {
			if got, want := strings.Join(w(), "; "), "a b c d e x; a b c d e"; got != want {
				t.Errorf("the sets were %q, want %q", got, want)
			}
		}
	})
}

// A broker that is restarted between the list and the put of a node makes no other node vanish, though the node's own lease is there when it lists
// again.
func TestBrokerWipedBeforePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := newBroker(t), newBroker(t)
		b, others := newFlaky(before), newFlaky(before)
		first := join(t, node("a"), members.NewLeases(b), nil)
		join(t, node("b"), members.NewLeases(others), nil)
		pass(3*time.Second + 500*time.Millisecond)
		watched := watchAll(t, first)
		b.next.Store(after)
		others.leases.Store(after)
		others.state.Store(failing)
		pass(2 * time.Second) // the first node has announced itself twice
		others.state.Store(up)
		pass(10 * time.Second)
		if got := strings.Join(watched(), "; "); got != "a b" {
			t.Errorf("the sets were %q", got)
		}
	})
}

// A Directory that begins while the broker is away has this node, and the others when the broker is back.
func TestBrokerAwayAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		away := newFlaky(b)
		away.state.Store(failing)
		join(t, node("a"), members.NewLeases(b), nil)
		d := join(t, node("b"), members.NewLeases(away), nil)
		pass(10 * time.Second)
		want(t, d, "while the broker is away", "b")
		select {
		case <-d.Ready():
			t.Error("it is ready, and knows nothing")
		default:
		}
		if d.Err() == nil {
			t.Error("it does not say why it is not announced")
		}
		away.state.Store(up)
		<-d.Ready()
		want(t, d, "when it is ready", "a b")
		pass(time.Second)
		if err := d.Err(); err != nil {
			t.Errorf("it is announced, and says %v", err)
		}
	})
}

// Values that are no members are left out, and logged once, though they change.
func TestBadLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		var said discoverytest.Output
		d := join(t, node("a"), members.NewLeases(b), &said)
		join(t, node("b"), members.NewLeases(b), nil)
		hostile := map[string]string{
			"empty":     "",
			"array":     "[]",
			"noid":      "{}",
			"huge":      `{"id":"h","cluster":"test","labels":{"a":"` + strings.Repeat("x", 10<<20) + `"}}`,
			"deep":      strings.Repeat("[", 30<<10),
			"binary":    "\x00\xff\xfe",
			"twice":     `{"id":"a","id":"b"}`,
			"role":      `{"id":"r","cluster":"test","role":"king"}`,
			"sessions":  `{"id":"s","cluster":"test","role":"all","sessions":-1}`,
			"new\nline": `{"id":"n\nforged","cluster":"test","role":"all"}`,
		}
		pass(500 * time.Millisecond) // between the beats
		for round := range 10 {
			for name, value := range hostile {
				if round%3 == 2 {
					value += fmt.Sprint(round)
				}
				if err := b.PutLease(t.Context(), broker.Lease{Key: "member/test\x00" + name, Value: []byte(value)}, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Second)
			want(t, d, "beside garbage", "a b")
		}
		if n := len(strings.Split(strings.TrimSpace(said.String()), "\n")); n != len(hostile) {
			t.Errorf("%d lines were logged, want one for each of %d", n, len(hostile))
		}
		for name := range hostile {
			if name = strings.ReplaceAll(name, "\n", `\\n`); times(&said, name) == 0 {
				t.Errorf("%q was not logged", name)
			}
		}
		if n := len(said.String()); n > 10_000 {
			t.Errorf("%d bytes were logged", n)
		}
	})
}

// A lease under the name of this cluster whose value names another one is not heard.
func TestLeaseOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		stranger := node("x")
		stranger.Cluster = "other"
		value, err := cluster.Encode(stranger)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.PutLease(t.Context(), broker.Lease{Key: "member/test\x00x\x00", Value: value}, time.Minute); err != nil {
			t.Fatal(err)
		}
		d := join(t, node("a"), members.NewLeases(b), nil)
		pass(2 * time.Second)
		want(t, d, "beside a stranger", "a")
	})
}

// If two nodes have one ID, each node logs it once, and all others choose the same one of them.
func TestTwoWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		said := make([]discoverytest.Output, 3)
		twin := node("a")
		twin.Link, twin.Public = "twin.test:9100", "ws://twin.test"
		first, second := join(t, node("a"), members.NewLeases(b), &said[0]), join(t, twin, members.NewLeases(b), &said[1])
		other := join(t, node("c"), members.NewLeases(b), &said[2])
		pass(2 * time.Second)
		watched := watchAll(t, other)
		for i := range 20 {
			update(t, first, func(m *cluster.Member) { m.Sessions = i })
			pass(time.Second)
		}
		if got := other.Set().Member("a").Link; got != "a.test:9100" {
			t.Errorf("the other node chose %q", got)
		}
		if got := second.Set().Member("a").Link; got != "twin.test:9100" {
			t.Errorf("in its own set the second node is %q", got)
		}
		for _, set := range watched() {
			if set != "a c" {
				t.Errorf("a set: %q", set)
			}
		}
		for i, text := range []string{"another node has the id of this one", "another node has the id of this one", "two different nodes have this id"} {
			if n := times(&said[i], text); n != 1 {
				t.Errorf("%q was logged %d times:\n%s", text, n, &said[i])
			}
		}
	})
}

// A node that was killed and starts again at the same address takes its place at once, and nothing is logged.
func TestRestartedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		killed := newFlaky(b)
		var said discoverytest.Output
		other := join(t, node("b"), members.NewLeases(b), &said)
		join(t, node("a"), members.NewLeases(killed), nil)
		pass(2 * time.Second)
		killed.state.Store(failing)
		self := node("a")
		self.Version, self.Labels = "2", map[string]string{"zone": "x"}
		again := join(t, self, members.NewLeases(b), &said)
		pass(1500 * time.Millisecond)
		want(t, other, "after the restart", "a b")
		want(t, again, "after the restart", "a b")
		if m := other.Set().Member("a"); m.Version != "2" {
			t.Errorf("the other node has the old values: %+v", m)
		}
		if said.String() != "" {
			t.Errorf("it was logged:\n%s", &said)
		}
	})
}

// When the broker is closed, the set stays, and this is logged once.
func TestBrokerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		var said discoverytest.Output
		d := join(t, node("a"), members.NewLeases(b), &said)
		join(t, node("b"), members.NewLeases(b), nil)
		pass(2 * time.Second)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		want(t, d, "when the broker is closed", "a b")
		if times(&said, "") != 1 || times(&said, "the source does not answer") != 1 {
			t.Errorf("it was logged:\n%s", &said)
		}
		if err := d.Close(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("close: %v", err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
}

// Close gives up when its context is done.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := newFlaky(newBroker(t))
		d := join(t, node("a"), members.NewLeases(away), nil)
		synctest.Wait()
		away.state.Store(hanging)
		pass(1500 * time.Millisecond) // calls are under way
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := d.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// A lease that has become garbage is left out, also while nothing is removed.
func TestLeaseViewOfGarbage(t *testing.T) {
	value, err := cluster.Encode(node("b"))
	if err != nil {
		t.Fatal(err)
	}
	var v members.LeaseView
	now := time.Unix(0, 0)
	v.Away(now)
	for _, step := range []struct {
		value string
		want  int
	}{{string(value), 1}, {"garbage", 0}, {string(value), 1}} {
		found := v.Observe(now, []broker.Lease{{Key: "key b", Value: []byte(step.value)}}, "")
		if len(found.Members) != step.want || len(found.Problems) != 1-step.want {
			t.Errorf("of %q: %+v", step.value, found)
		}
	}
}

// Whatever the broker lists: a member that was listed stays as long as its lease is there; one whose lease is missing stays if, and only if, the broker
// was away or had lost this node's lease less than five seconds ago.
func TestLeaseView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v members.LeaseView
		now := time.Unix(0, 0)
		var last string
		var doubt time.Time
		hasOwn := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 4).Draw(t, "away") == 0 {
				v.Away(now)
				doubt = now
				continue
			}
			var list []broker.Lease
			listed := ""
			for _, id := range "abc" {
				if rapid.IntRange(0, 3).Draw(t, string(id)) > 0 {
					value, err := cluster.Encode(node(string(id)))
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, broker.Lease{Key: "key " + string(id), Value: value})
					listed += string(id)
				}
			}
			if strings.Contains(listed, "a") {
				hasOwn = true
			} else if hasOwn {
				doubt = now
			}
			want := ""
			for _, id := range "abc" {
				kept := strings.ContainsRune(last, id) && !doubt.IsZero() && now.Sub(doubt) < 5*time.Second
				if strings.ContainsRune(listed, id) || kept {
					want += string(id)
				}
			}
			found := v.Observe(now, list, "key a")
			got := ""
			for _, id := range "abc" {
				for i := range found.Members {
					if found.Members[i].ID == string(id) {
						got += string(id)
					}
				}
			}
			if got != want {
				t.Fatalf("listed %q after %q: got %q, want %q", listed, last, got, want)
			}
			last = got
		}
	})
}
