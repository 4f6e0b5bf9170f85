package gateway

import (
	"testing"

	"pgregory.net/rapid"
)

// In no span of time more happens than the rate allows for it and what may happen at once; what is asked for more slowly always happens.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rateOf(rapid.IntRange(1, 1000).Draw(t, "rate"), 0)
		var b bucket
		var taken []int64
		now := rapid.Int64Range(0, 1<<40).Draw(t, "begin")
		for range rapid.IntRange(1, 300).Draw(t, "questions") {
			now += rapid.Int64Range(-5, 200).Draw(t, "pause")
			for range rapid.IntRange(0, 400).Draw(t, "at once") {
				if b.take(r, now) {
					taken = append(taken, now)
				}
			}
		}
		latest := int64(0)
		for i, at := range taken { // times that ran backwards did not pass
			latest = max(latest, at)
			taken[i] = latest
		}
		for i := 0; i < len(taken); i += 1 + len(taken)/50 {
			most := r.atOnce + 1 + int((taken[len(taken)-1]-taken[i])*int64(r.perSecond)/1000)
			if n := len(taken) - i; n > most {
				t.Fatalf("%d in %d ms, at most %d are allowed", n, taken[len(taken)-1]-taken[i], most)
			}
		}
		now = max(now, latest) + 20_000
		for range 100 {
			now += int64(1000/r.perSecond) + 1
			if !b.take(r, now) {
				t.Fatal("refused although it rested")
			}
		}
	})
	var b bucket
	for range 1000 {
		if !b.take(rateOf(-1, 5), 0) {
			t.Fatal("refused without a rate")
		}
	}
}
