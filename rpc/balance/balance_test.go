package balance_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc/balance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers returns endpoints a, b, c … with weights.
func servers(weights ...int) []discovery.Endpoint {
	out := make([]discovery.Endpoint, len(weights))
	for i, w := range weights {
		out[i] = discovery.Endpoint{Address: fmt.Sprintf("%c.test:1", 'a'+i), Weight: w}
	}
	return out
}

// made returns a balancer with servers, whose random numbers are always the same.
func made(t interface{ Fatal(args ...any) }, o balance.Options, set []discovery.Endpoint) *balance.Balancer {
	if o.Random == nil {
		o.Random = rand.New(rand.NewPCG(1, 2)).Uint64
	}
	b := balance.New(&o)
	if err := b.Set(set); err != nil {
		t.Fatal(err)
	}
	return b
}

func pick(t interface{ Fatal(args ...any) }, b *balance.Balancer, now time.Time, c balance.Call) balance.Choice {
	target, err := b.Pick(now, c)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

var start = time.Unix(1000, 0)

func TestNone(t *testing.T) {
	b := balance.New(nil)
	if _, err := b.Pick(start, balance.Call{}); !errors.Is(err, balance.ErrNone) {
		t.Errorf("without servers: %v", err)
	}
	if err := b.Set([]discovery.Endpoint{{Address: "nowhere"}, {Address: "a.test:1"}}); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("a bad endpoint: %v", err)
	}
	if target := pick(t, b, start, balance.Call{}); target.Endpoint.Address != "a.test:1" || len(b.Targets()) != 1 {
		t.Errorf("picked %+v of %d", target.Endpoint, len(b.Targets()))
	}
	if err := b.Set(nil); err != nil {
		t.Error(err)
	}
	if _, err := b.Pick(start, balance.Call{}); !errors.Is(err, balance.ErrNone) {
		t.Errorf("without servers again: %v", err)
	}
}

// In a whole round each server has exactly its share, and at no time is one more than a call ahead or behind.
func TestRoundRobin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 8).Draw(t, "weights")
		b := made(t, balance.Options{Policy: balance.RoundRobin}, servers(weights...))
		sum := 0
		for _, w := range weights {
			sum += w
		}
		got := make(map[string]int)
		for i := range 2 * sum {
			target := pick(t, b, start, balance.Call{})
			target.Done(start, balance.OK)
			got[target.Endpoint.Address]++
			for _, e := range servers(weights...) {
				if want := float64((i+1)*e.Weight) / float64(sum); math.Abs(float64(got[e.Address])-want) >= float64(len(weights)) {
					t.Fatalf("after %d calls %s has %d, of a share of %.1f", i+1, e.Address, got[e.Address], want)
				}
			}
		}
		for _, e := range servers(weights...) {
			if got[e.Address] != 2*e.Weight {
				t.Fatalf("%s has %d calls, want %d", e.Address, got[e.Address], 2*e.Weight)
			}
		}
	})
}

// Weights that have nothing in common are rounded.
func TestLargeWeights(t *testing.T) {
	b := made(t, balance.Options{Policy: balance.RoundRobin}, servers(999_983, 500_009, 1))
	got := make(map[string]int)
	const calls = 100_000
	for range calls {
		got[pick(t, b, start, balance.Call{}).Endpoint.Address]++
	}
	for address, share := range map[string]float64{"a.test:1": 2. / 3, "b.test:1": 1. / 3} {
		if have := float64(got[address]) / calls; math.Abs(have-share) > 0.01 {
			t.Errorf("%s has %.3f of the calls, want %.3f", address, have, share)
		}
	}
	if got["c.test:1"] == 0 {
		t.Error("the lightest server has no call")
	}
}

// When a server goes only its keys move; when it comes back they return; and keys are spread by weight.
func TestByKey(t *testing.T) {
	const keys = 20_000
	all := servers(100, 200, 100, 400)
	b := made(t, balance.Options{Policy: balance.ByKey}, all)
	where := func() []string {
		out := make([]string, keys)
		for i := range out {
			out[i] = pick(t, b, start, balance.Call{Key: fmt.Sprint("user-", i)}).Endpoint.Address
		}
		return out
	}
	before, got := where(), make(map[string]int)
	for _, address := range before {
		got[address]++
	}
	for i := range all {
		want := float64(keys) * float64(all[i].Weight) / 800
		if have := float64(got[all[i].Address]); math.Abs(have-want) > want/20 {
			t.Errorf("%s has %.0f keys, want %.0f", all[i].Address, have, want)
		}
	}
	if err := b.Set(all[:3]); err != nil {
		t.Fatal(err)
	}
	for i, address := range where() {
		if moved := address != before[i]; moved != (before[i] == "d.test:1") {
			t.Fatalf("key %d: %s, then %s", i, before[i], address)
		}
	}
	if err := b.Set(all); err != nil {
		t.Fatal(err)
	}
	for i, address := range where() {
		if address != before[i] {
			t.Fatalf("key %d: %s, then %s", i, before[i], address)
		}
	}
}

// A server that does not answer gets hardly more calls than the others have under way, and weights count.
func TestLeastPending(t *testing.T) {
	b := made(t, balance.Options{}, servers(100, 100, 100, 100, 200))
	stuck := 0
	for range 2000 {
		target := pick(t, b, start, balance.Call{})
		if target.Endpoint.Address == "a.test:1" {
			stuck++
			continue
		}
		target.Done(start, balance.OK)
	}
	if stuck > 200 { // each time that both choices are this one: one in 36
		t.Errorf("of 2,000 calls %d went to a server that does not answer", stuck)
	}
	b = made(t, balance.Options{}, servers(100, 100, 100, 100, 200))
	for range 600 {
		pick(t, b, start, balance.Call{})
	}
	for _, target := range b.Targets() {
		if n, want := target.Pending(), target.Endpoint.Weight; n < want-15 || n > want+15 {
			t.Errorf("%s has %d calls under way, want about %d", target.Endpoint.Address, n, want)
		}
	}
}

// Servers of the caller's zone are used while one of them can be, then the others.
func TestZone(t *testing.T) {
	for _, policy := range []balance.Policy{balance.RoundRobin, balance.LeastPending, balance.ByKey} {
		set := servers(100, 100, 100, 100)
		set[1].Zone, set[2].Zone, set[3].Zone = "near", "near", "far"
		b := made(t, balance.Options{Policy: policy, Zone: "near", Ejection: &balance.Ejection{Failures: 1}}, set)
		zones := func() map[string]int {
			out := make(map[string]int)
			for i := range 100 {
				target := pick(t, b, start, balance.Call{Key: fmt.Sprint(i)})
				target.Done(start, balance.OK)
				out[target.Endpoint.Zone]++
			}
			return out
		}
		if got := zones(); got["near"] != 100 {
			t.Errorf("policy %d: %v", policy, got)
		}
		for range 2 {
			target := pick(t, b, start, balance.Call{})
			if target.Endpoint.Zone != "near" {
				t.Fatalf("policy %d: while one is good, %+v is picked", policy, target.Endpoint)
			}
			target.Done(start, balance.Failed)
		}
		if got := zones(); got["near"] != 0 || got["far"] == 0 || got[""] == 0 {
			t.Errorf("policy %d, without good servers near: %v", policy, got)
		}
	}
}

// A call that is made again goes to another server, until all were tried, also if their weights change meanwhile.
func TestAvoid(t *testing.T) {
	for _, policy := range []balance.Policy{balance.RoundRobin, balance.LeastPending, balance.ByKey} {
		b := made(t, balance.Options{Policy: policy}, servers(1, 5, 100))
		var tried []*balance.Target
		seen := make(map[string]bool)
		for i := range 3 {
			if err := b.Set(servers(1, 5, 100+i)); err != nil {
				t.Fatal(err)
			}
			target := pick(t, b, start, balance.Call{Key: "k", Avoid: tried})
			target.Done(start, balance.Ignored)
			if seen[target.Endpoint.Address] {
				t.Fatalf("policy %d: %s twice", policy, target.Endpoint.Address)
			}
			seen[target.Endpoint.Address], tried = true, append(tried, target.Target)
		}
		pick(t, b, start, balance.Call{Avoid: tried}).Done(start, balance.OK)
	}
}

// What is known of a server outlives a new weight, and goes with the server.
func TestSetKeeps(t *testing.T) {
	b := made(t, balance.Options{Policy: balance.RoundRobin, Ejection: &balance.Ejection{Failures: 1}}, servers(1, 1))
	target := pick(t, b, start, balance.Call{})
	target.Done(start, balance.Failed)
	pick(t, b, start, balance.Call{})
	find := func() *balance.Target {
		for _, other := range b.Targets() {
			if other.Endpoint.Address == target.Endpoint.Address {
				return other
			}
		}
		return nil
	}
	if err := b.Set(servers(3, 3)); err != nil {
		t.Fatal(err)
	}
	if now := find(); !now.Ejected() || now.Endpoint.Weight != 3 || b.Targets()[0].Pending()+b.Targets()[1].Pending() != 1 {
		t.Errorf("after a new weight: %+v", now)
	}
	if err := b.Set(nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Set(servers(1, 1)); err != nil {
		t.Fatal(err)
	}
	if find().Ejected() {
		t.Error("a server that had gone comes back ejected")
	}
}

func BenchmarkPick(b *testing.B) {
	for name, policy := range map[string]balance.Policy{"RoundRobin": balance.RoundRobin, "LeastPending": balance.LeastPending, "ByKey": balance.ByKey} {
		b.Run(name, func(b *testing.B) {
			balancer := balance.New(&balance.Options{Policy: policy})
			if err := balancer.Set(servers(1, 1, 1, 1, 2, 2, 2, 3, 3, 10)); err != nil {
				b.Fatal(err)
			}
			call := balance.Call{Key: "user-17"}
			b.ReportAllocs()
			for b.Loop() {
				target, err := balancer.Pick(start, call)
				if err != nil {
					b.Fatal(err)
				}
				target.Done(start, balance.OK)
			}
		})
	}
}

func ExampleBalancer() {
	b := balance.New(&balance.Options{Policy: balance.ByKey})
	if err := b.Set(discovery.Addresses("10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000")); err != nil {
		fmt.Println(err)
	}
	now := time.Now()
	first, _ := b.Pick(now, balance.Call{Key: "ann"})
	first.Done(now, balance.OK)
	again, _ := b.Pick(now, balance.Call{Key: "ann"})
	again.Done(now, balance.OK)
	fmt.Println(first.Endpoint.Address == again.Endpoint.Address)
	// Output: true
}
