package rendezvous_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-push/sluice/internal/rendezvous"
)

// Hashes and scores are agreements between processes of different releases, so they must never change.
func TestFixed(t *testing.T) {
	for text, want := range map[string]uint64{"": 0xf52a15e9a9b5e89b, "a": 0x2c0bdbf481420f8, "a.test:1": 0x599fd7d816cd4576} {
		if got := rendezvous.Hash(text); got != want {
			t.Errorf("the hash of %q is %#x, and was %#x", text, got, want)
		}
	}
	if got, want := rendezvous.Score(rendezvous.Hash("ann"), rendezvous.Hash("a.test:1"), 100), 185.006238238783; math.Abs(got-want) > 1e-9 {
		t.Errorf("the score is %.12f, and was %.12f", got, want)
	}
}

// All bits give numbers between 0 and 1, so that no score is infinite.
func TestUnit(t *testing.T) {
	for _, bits := range []uint64{0, 1, 1 << 11, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		if u := rendezvous.Unit(bits); u <= 0 || u >= 1 {
			t.Errorf("%#x becomes %v", bits, u)
		}
	}
}

// Keys are spread by weight.
func TestShares(t *testing.T) {
	const keys = 50_000
	weights := []float64{1, 2, 5}
	var got [3]int
	for key := range keys {
		best, score := 0, math.Inf(-1)
		for i, weight := range weights {
			if s := rendezvous.Score(rendezvous.Hash(fmt.Sprint("key-", key)), rendezvous.Hash(fmt.Sprint("member-", i)), weight); s > score {
				best, score = i, s
			}
		}
		got[best]++
	}
	for i, weight := range weights {
		if want := keys * weight / 8; math.Abs(float64(got[i])-want) > want/20 {
			t.Errorf("member %d has %d keys, want %.0f", i, got[i], want)
		}
	}
}
