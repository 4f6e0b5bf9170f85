package admission_test

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/admission"
)

func addr(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}) //nolint:gosec // small
}

// In any order of arrivals, neither an address nor all together get more connects in a span of time than the rate allows; a slow client is
// admitted whatever others do, unless the node has no room.
func TestRamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, address := rapid.IntRange(0, 50).Draw(t, "node"), rapid.IntRange(0, 20).Draw(t, "address")
		r := admission.NewRamp(node, address)
		admitted := map[netip.Addr][]int64{}
		var all []int64
		now := int64(0)
		for range rapid.IntRange(1, 400).Draw(t, "connects") {
			now += rapid.Int64Range(0, 300).Draw(t, "pause")
			from := addr(rapid.IntRange(1, 5).Draw(t, "address"))
			var why admission.Name
			ok := r.Admit(from, now, func(n admission.Name) bool { why = n; return true })
			if ok != (why == "") {
				t.Fatalf("admitted: %t, although %q", ok, why)
			}
			if ok {
				admitted[from] = append(admitted[from], now)
				all = append(all, now)
				continue
			}
			of, rate := all, node
			if why == admission.ConnectsPerAddress {
				of, rate = admitted[from], address
			}
			recent := 0
			for _, at := range of {
				if now-at < 2000 { // the burst, and what was given back since
					recent++
				}
			}
			if rate == 0 || recent < rate {
				t.Fatalf("refused for %s although only %d came of late", why, recent)
			}
		}
		check := func(times []int64, rate int) {
			for i := range times {
				for j := i; j < len(times) && rate > 0; j++ {
					if n, most := int64(j-i+1), int64(rate)+1+(times[j]-times[i])*int64(rate)/1000; n > most {
						t.Fatalf("%d connects in %d ms, at most %d are allowed", n, times[j]-times[i], most)
					}
				}
			}
		}
		check(all, node)
		for _, times := range admitted {
			check(times, address)
		}
	})
}

// A client that is refused counts for no limit: an address that floods the node keeps nobody else out.
func TestRampIsFair(t *testing.T) {
	r := admission.NewRamp(10, 2)
	refuse := func(admission.Name) bool { return true }
	for range 1000 {
		r.Admit(addr(1), 0, refuse)
	}
	for i := range 4 {
		for range 2 {
			if !r.Admit(addr(2+i), 0, refuse) {
				t.Fatalf("address %d is refused", i)
			}
		}
	}
	var why admission.Name
	if r.Admit(addr(9), 0, func(n admission.Name) bool { why = n; return true }) || why != admission.Connects {
		t.Errorf("the eleventh client of the node: %q", why)
	}
	if r.Admit(addr(9), 50, refuse) || !r.Admit(addr(9), 100, refuse) || !r.Admit(addr(9), 1000, refuse) {
		t.Error("an address that the node had no room for has used up its own")
	}
}

// Limits that are not enforced admit, and do not keep an enforced one from refusing.
func TestRampDry(t *testing.T) {
	r := admission.NewRamp(3, 1)
	var seen []admission.Name
	dry := func(n admission.Name) bool {
		seen = append(seen, n)
		return n == admission.Connects
	}
	for i := range 3 {
		if !r.Admit(addr(1), 0, dry) || len(seen) != i {
			t.Fatalf("connect %d: %v", i, seen)
		}
	}
	if r.Admit(addr(1), 0, dry) || len(seen) != 4 || seen[2] != admission.ConnectsPerAddress || seen[3] != admission.Connects {
		t.Errorf("the fourth: %v", seen)
	}
}

// Buckets of addresses are forgotten, however many addresses there are, and never one that is not full.
func TestRampForgets(t *testing.T) {
	r := admission.NewRamp(0, 1)
	refuse := func(admission.Name) bool { return true }
	now := int64(0)
	for round := range 50 {
		for i := range 1000 {
			if !r.Admit(addr(round*1000+i), now, refuse) {
				t.Fatalf("address %d of round %d is refused", i, round)
			}
		}
		if now += 999; round > 0 && r.Admit(addr(round*1000), now, refuse) {
			t.Fatalf("round %d: the address may connect again before a second is over", round)
		}
		now++
	}
	if n := r.Addresses(); n > 2002 {
		t.Errorf("%d addresses are remembered", n)
	}
	for i := range 3 << 16 {
		r.Admit(addr(i), now, refuse)
	}
	if n := r.Addresses(); n > 2<<16 {
		t.Errorf("%d addresses are remembered after a flood", n)
	}
}

// Clients that come again when they are told to come one after another, at the rate of the node, and are all admitted at the first try.
func TestRampWait(t *testing.T) {
	const rate, storm = 100, 2000
	r := admission.NewRamp(rate, 0)
	refuse := func(admission.Name) bool { return true }
	var again []time.Duration
	for range storm {
		if !r.Admit(addr(1), 0, refuse) {
			again = append(again, r.Wait(0))
		}
	}
	if len(again) != storm-rate {
		t.Fatalf("%d were refused", len(again))
	}
	for i, at := range again { // in order
		if i > 0 && at < again[i-1] || at < time.Second || at > 30*time.Second {
			t.Fatalf("client %d is to wait %v, after %v", i, at, again[max(i, 1)-1])
		}
		if !r.Admit(addr(1), at.Milliseconds()+1, refuse) {
			t.Fatalf("client %d is refused after %v", i, at)
		}
	}
	if last := again[len(again)-1]; last > 21*time.Second {
		t.Errorf("the last one is to wait %v, %d a second need 20 s", last, rate)
	}
	for range 100_000 {
		if at := r.Wait(0); at > 30*time.Second {
			t.Fatalf("a client is to wait %v", at)
		}
	}
	if at := r.Wait(60_000); at != time.Second {
		t.Errorf("after a quiet minute, a client is to wait %v", at)
	}
	if at := admission.NewRamp(0, 1).Wait(5); at != time.Second {
		t.Errorf("without a rate of the node, a client is to wait %v", at)
	}
}
