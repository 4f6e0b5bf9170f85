package network_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

var stalls = network.Conditions{
	Stalls: network.Stalls{Least: 200 * time.Millisecond, Most: 2 * time.Second, Every: 10 * time.Second},
	Seed:   7,
}

// Stalls have the specified length and frequency.
func TestStallsAreFrequent(t *testing.T) {
	f := network.NewFate(stalls, 3, time.Minute)
	now, least, most := time.Minute, time.Hour, time.Duration(0)
	var apart time.Duration
	const times = 20_000
	for range times {
		is, from := f.Stalled(now)
		if is || from <= now {
			t.Fatalf("at %v: stalled %v until %v", now, is, from)
		}
		is, to := f.Stalled(from)
		if !is || to <= from {
			t.Fatalf("at %v: stalled %v until %v", from, is, to)
		}
		apart += from - now
		least, most = min(least, to-from), max(most, to-from)
		now = to
	}
	if mean := apart / times; mean < 9700*time.Millisecond || mean > 10300*time.Millisecond {
		t.Errorf("%v apart on average", mean)
	}
	if s := stalls.Stalls; least < s.Least || least > s.Least*11/10 || most > s.Most || most < s.Most*9/10 {
		t.Errorf("%v to %v long", least, most)
	}
}

// The fate does not depend on when it is asked.
func TestFateIsFixed(t *testing.T) {
	often, rarely := network.NewFate(stalls, 3, 0), network.NewFate(stalls, 3, 0)
	r := rand.New(rand.NewPCG(1, 2))
	ask, asked := time.Duration(0), 0
	for now := time.Duration(0); now < 5*time.Minute; now += time.Millisecond {
		is, next := often.Stalled(now)
		if now < ask {
			continue
		}
		if is2, next2 := rarely.Stalled(now); is != is2 || next != next2 {
			t.Fatalf("at %v: %v until %v, or %v until %v", now, is, next, is2, next2)
		}
		ask = now + time.Duration(r.Int64N(int64(20*time.Second)))
		if r.IntN(2) == 0 {
			ask = now + time.Millisecond
		}
		asked++
	}
	if asked < 10 {
		t.Fatalf("asked %d times", asked)
	}
}

// Connections live for the specified time on average. The times differ from connection to connection, but not from run to run.
func TestLives(t *testing.T) {
	c := network.Conditions{Reset: 30 * time.Second, HalfOpen: time.Minute, Seed: 1}
	var resets, halves time.Duration
	const conns = 20_000
	for id := range uint64(conns) {
		reset, half := network.NewFate(c, id, time.Hour).Ends()
		if again, _ := network.NewFate(c, id, time.Hour).Ends(); again != reset || reset < time.Hour || half < time.Hour {
			t.Fatalf("connection %d: reset at %v and at %v, half open at %v", id, reset, again, half)
		}
		resets += reset - time.Hour
		halves += half - time.Hour
	}
	if mean := resets / conns; mean < 29*time.Second || mean > 31*time.Second {
		t.Errorf("reset after %v on average", mean)
	}
	if mean := halves / conns; mean < 58*time.Second || mean > 62*time.Second {
		t.Errorf("half open after %v on average", mean)
	}
	if reset, half := network.NewFate(network.Conditions{}, 0, 0).Ends(); reset != network.Never || half != network.Never {
		t.Errorf("without a reason: reset at %v, half open at %v", reset, half)
	}
}

// A connection in a share is in every larger share.
func TestShares(t *testing.T) {
	counts := map[float64]int{}
	for id := range uint64(10_000) {
		before := false
		for _, share := range []float64{0, 0.1, 0.5, 1} {
			is := network.IsChosen(5, id, share)
			if before && !is {
				t.Fatalf("connection %d is not in a share of %v, but in a smaller one", id, share)
			}
			if before = is; is {
				counts[share]++
			}
		}
	}
	if counts[0] != 0 || counts[0.1] < 900 || counts[0.1] > 1100 || counts[0.5] < 4800 || counts[0.5] > 5200 || counts[1] != 10_000 {
		t.Errorf("chosen: %v", counts)
	}
}
