package balance_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/rpc/balance"
)

// call makes a call to one server, however many others come first.
func call(t *testing.T, b *balance.Balancer, to *balance.Target, now time.Time) balance.Choice {
	t.Helper()
	for range 1000 {
		c := pick(t, b, now, balance.Call{})
		if c.Target == to {
			return c
		}
		c.Done(now, balance.OK)
	}
	t.Fatalf("of 1,000 calls none goes to %s", to.Endpoint.Address)
	return balance.Choice{}
}

// fail makes calls to one server fail until it is ejected, and returns how many that took.
func fail(t *testing.T, b *balance.Balancer, victim *balance.Target, now time.Time) (calls int) {
	t.Helper()
	for ; !victim.Ejected(); calls++ {
		call(t, b, victim, now).Done(now, balance.Failed)
	}
	return calls
}

// A server that fails five times in a row is ejected for five seconds; then one call decides: it is taken back, or ejected for longer.
func TestEjection(t *testing.T) {
	b := made(t, balance.Options{Policy: balance.RoundRobin}, servers(1, 1, 1, 1))
	victim := b.Targets()[0]
	now := start
	var last balance.Choice // of the victim, under way
	calls := func(n int) (of int) {
		for range n {
			c := pick(t, b, now, balance.Call{})
			if c.Target == victim {
				last = c
				of++
				continue
			}
			c.Done(now, balance.OK)
		}
		return of
	}
	if n := fail(t, b, victim, now); n != 5 {
		t.Errorf("ejected after %d failures", n)
	}
	for i, seconds := range []int{5, 10, 15, 20} {
		now = now.Add(time.Duration(seconds)*time.Second - time.Millisecond)
		if n := calls(20); n != 0 {
			t.Fatalf("ejection %d: %d calls before its time", i+1, n)
		}
		now = now.Add(time.Millisecond)
		if n := calls(20); n != 1 {
			t.Fatalf("ejection %d: %d calls instead of a probe", i+1, n)
		}
		last.Done(now, balance.Failed)
	}
	now = now.Add(25 * time.Second)
	if n := calls(20); n != 1 {
		t.Fatalf("%d calls instead of a probe", n)
	}
	last.Done(now, balance.Ignored) // nothing is known: another call decides
	if n := calls(20); n != 1 {
		t.Fatalf("%d calls instead of another probe", n)
	}
	last.Done(now, balance.OK)
	if n := calls(20); n != 5 {
		t.Errorf("of 20 calls %d go to the server that was taken back", n)
	}
	now = now.Add(10 * time.Minute) // without trouble
	fail(t, b, victim, now)
	now = now.Add(5 * time.Second)
	if n := calls(20); n != 1 {
		t.Errorf("the first ejection after a quiet time is not the shortest: %d calls", n)
	}
}

// A server that fails for more than half of twenty calls in ten seconds is ejected, though never five times in a row.
func TestRate(t *testing.T) {
	for _, slow := range []bool{false, true} {
		b := made(t, balance.Options{}, servers(1, 1))
		victim, now, calls := b.Targets()[0], start, 0
		for !victim.Ejected() && calls < 200 {
			r := balance.Failed
			if calls%3 == 0 {
				r = balance.OK
			}
			call(t, b, victim, now).Done(now, r)
			calls++
			if slow {
				now = now.Add(time.Second)
			}
		}
		if slow && victim.Ejected() {
			t.Errorf("ejected after %d calls, one a second", calls)
		}
		if !slow && calls != 20 {
			t.Errorf("ejected after %d calls", calls)
		}
	}
	b := made(t, balance.Options{Ejection: &balance.Ejection{Failures: -1, Rate: -1}}, servers(1, 1))
	for range 1000 {
		call(t, b, b.Targets()[0], start).Done(start, balance.Failed)
	}
	if b.Targets()[0].Ejected() {
		t.Error("ejected though both rules are off")
	}
}

// Whatever happens, in whatever order: a call always has a server, no more than half are ejected, an ejected one has one probe at a time and none before
// its time, and calls under way are counted.
func TestEjectionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "servers")
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 1 + i%3
		}
		policy := rapid.SampledFrom([]balance.Policy{balance.RoundRobin, balance.LeastPending, balance.ByKey}).Draw(t, "policy")
		b := made(t, balance.Options{Policy: policy, Ejection: &balance.Ejection{Failures: 2, MinCalls: 4}}, servers(weights...))
		now := start
		type underWay struct {
			balance.Choice
			probe bool
		}
		var under []underWay
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			if len(under) > 0 && rapid.Bool().Draw(t, "done") {
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				r := rapid.SampledFrom([]balance.Result{balance.OK, balance.Failed, balance.Ignored}).Draw(t, "result")
				under[i].Done(now, r)
				if r == balance.OK && under[i].Ejected() {
					t.Fatal("a server that has answered is ejected")
				}
				done := under[i].Target
				under = append(under[:i], under[i+1:]...)
				for i := range under { // a server that was taken back has no probe
					under[i].probe = under[i].probe && (under[i].Target != done || done.Ejected())
				}
			} else {
				good := 0
				for _, target := range b.Targets() {
					if !target.Ejected() {
						good++
					}
				}
				to := pick(t, b, now, balance.Call{Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))})
				probe := to.Ejected()
				for _, other := range under {
					if probe && good > 0 && other.Target == to.Target && other.probe {
						t.Fatalf("a second probe of %s", to.Endpoint.Address)
					}
				}
				under = append(under, underWay{to, probe})
			}
			ejected, pending := 0, 0
			for _, target := range b.Targets() {
				if target.Ejected() {
					ejected++
				}
				pending += target.Pending()
			}
			if 2*ejected > n || pending != len(under) {
				t.Fatalf("%d of %d are ejected; %d calls are under way, want %d", ejected, n, pending, len(under))
			}
		}
	})
}

// Many goroutines at once: the race detector looks, and every call under way is counted.
func TestConcurrent(t *testing.T) {
	b := balance.New(&balance.Options{Ejection: &balance.Ejection{Failures: 2, Time: time.Nanosecond}})
	if err := b.Set(servers(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	var working sync.WaitGroup
	for w := range 8 {
		working.Go(func() {
			for i := range 500 {
				target, err := b.Pick(time.Now(), balance.Call{Key: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
					return
				}
				if w == 0 && i%50 == 0 {
					if err := b.Set(servers(1, 2, 3+i)); err != nil {
						t.Error(err)
					}
				}
				target.Done(time.Now(), []balance.Result{balance.OK, balance.Failed, balance.Ignored}[(w+i)%3])
			}
		})
	}
	working.Wait()
	for _, target := range b.Targets() {
		if n := target.Pending(); n != 0 {
			t.Errorf("%s has %d calls under way", target.Endpoint.Address, n)
		}
	}
}

// Retries are never more than the share of the calls and the rate allow, and they are allowed up to that.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share, rate := rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "share"), rapid.IntRange(0, 20).Draw(t, "rate")
		b, now := balance.NewBudget(share, rate), start
		calls, retries := 0, 0
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				b.Call()
				calls++
			default:
				if b.Retry(now) {
					retries++
				}
			}
			most := share*float64(calls) + float64(rate)*(now.Sub(start).Seconds()+1) + 1e-6
			if float64(retries) > most {
				t.Fatalf("%d retries of %d calls in %v, at most %.1f are allowed", retries, calls, now.Sub(start), most)
			}
		}
	})
	b := balance.NewBudget(0.1, 10)
	count := func(now time.Time) (n int) {
		for b.Retry(now) {
			n++
		}
		return n
	}
	if n := count(start); n != 10 {
		t.Errorf("at the start %d retries", n)
	}
	if n := count(start.Add(time.Second)); n != 10 {
		t.Errorf("a second later %d retries", n)
	}
	if n := count(start.Add(time.Hour)); n != 100 {
		t.Errorf("an hour later %d retries", n)
	}
	for range 200 {
		b.Call()
	}
	if n := count(start.Add(time.Hour)); n < 19 || n > 20 {
		t.Errorf("after 200 calls %d retries", n)
	}
}
