package admission_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/admission"
)

// In no span of time more is taken than the rate allows for it and what may be taken at once; what is asked for more slowly is always given.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := admission.Rate{PerSecond: rapid.Int64Range(1, 1000).Draw(t, "rate")}
		r.Burst = r.PerSecond * rapid.Int64Range(1, 10).Draw(t, "seconds at once")
		var b admission.Bucket
		type taken struct{ at, n int64 }
		var all []taken
		now := rapid.Int64Range(0, 1<<40).Draw(t, "begin")
		latest := int64(0) // what the bucket has seen: times that run backwards do not pass
		for range rapid.IntRange(1, 100).Draw(t, "questions") {
			now += rapid.Int64Range(-5, 200).Draw(t, "pause")
			for range rapid.IntRange(0, 10).Draw(t, "at once") {
				latest = max(latest, now)
				n := rapid.Int64Range(1, r.PerSecond).Draw(t, "tokens")
				has := b.Has(r, n, now)
				if has != b.Take(r, n, now) {
					t.Fatal("Has and Take do not agree")
				}
				if has {
					all = append(all, taken{latest, n})
				}
			}
		}
		for i := 0; i < len(all); i += 1 + len(all)/50 {
			sum := int64(0)
			for _, one := range all[i:] {
				sum += one.n
			}
			span := all[len(all)-1].at - all[i].at
			if most := r.Burst + 1 + span*r.PerSecond/1000; sum > most {
				t.Fatalf("%d in %d ms, at most %d are allowed", sum, span, most)
			}
		}
		now = latest + 11_000
		for range 100 {
			now += 1000/r.PerSecond + 1
			if !b.Take(r, 1, now) {
				t.Fatal("refused although it rested")
			}
		}
	})
}

// A bucket without a rate gives everything, and nothing has to be paid back later.
func TestBucketWithoutRate(t *testing.T) {
	var b admission.Bucket
	for range 1000 {
		if !b.Take(admission.Rate{}, 1<<40, 0) {
			t.Fatal("refused")
		}
	}
	if r := (admission.Rate{PerSecond: 1, Burst: 1}); !b.Take(r, 1, 0) {
		t.Error("what was taken without a rate counts")
	}
}

// Time that runs backwards neither gives tokens nor takes them.
func TestBucketBackwards(t *testing.T) {
	r := admission.Rate{PerSecond: 1000, Burst: 1000}
	var b admission.Bucket
	if !b.Take(r, 999, 10_000) || !b.Take(r, 1, 5000) || b.Take(r, 1, 9999) || b.Take(r, 1, 10_000) {
		t.Error("more or less is given")
	}
}

// What is spent beyond the bucket is waited for.
func TestBucketSpend(t *testing.T) {
	r := admission.Rate{PerSecond: 10, Burst: 10}
	var b admission.Bucket
	b.Spend(30)
	if b.Take(r, 1, 2090) {
		t.Error("given after 2090 ms")
	}
	if !b.Take(r, 1, 2110) {
		t.Error("refused after 2110 ms")
	}
}
