package channel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/push"
)

var modes = []push.Mode{push.Stream, push.Value, push.Table}

// play runs the world of one seed and returns it, with the first violation of a law.
func play(seed uint64, mode push.Mode, p plant, filters bool) (*world, error) {
	w := newWorld(rand.New(rand.NewPCG(seed, 1)), mode, p, filters)
	return w, w.run(300)
}

// TestLaws checks laws 1 to 3 of the design: order, no silent loss, convergence.
func TestLaws(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}
	for _, mode := range modes {
		for _, filters := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/filters=%t", mode, filters), func(t *testing.T) {
				t.Parallel()
				var deltas, full, resumes, lost int
				for seed := range seeds {
					w, err := play(seed, mode, correct, filters)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					for _, c := range w.clients {
						deltas, full, resumes, lost = deltas+c.deltas, full+c.full, resumes+c.resumes, lost+c.lost
					}
				}
				t.Logf("%d seeds: %d sent in full, %d as deltas, %d resumed, %d losses told", seeds, full, deltas, resumes, lost)
				if full == 0 || resumes == 0 || !filters && deltas == 0 || mode == push.Stream && lost == 0 {
					t.Error("the world is too quiet: something the laws speak of never happened")
				}
			})
		}
	}
}

// TestPlantedBugs is a mutation test: every rule that is plausible but wrong breaks a law.
func TestPlantedBugs(t *testing.T) {
	for _, tc := range []struct {
		plant   plant
		mode    push.Mode
		filters bool
	}{
		{deltaByCursor, push.Table, false},
		{deltaOnResumed, push.Table, false},
		{deltaOnResumed, push.Value, false},
		{replicaFloor0, push.Table, false},
		{replicaFloor0, push.Stream, false},
		{reloadFloor0, push.Table, false},
		{reloadFloor0, push.Stream, false},
		{dropUnmatched, push.Table, true},
		{replicaRetags, push.Table, true},
		{answerAhead, push.Table, false},
		{answerAhead, push.Stream, false},
	} {
		t.Run(fmt.Sprintf("%v/%s", tc.mode, tc.plant), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(400) {
				if _, err := play(seed, tc.mode, tc.plant, tc.filters); err != nil {
					t.Logf("caught by seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no law was broken in 400 seeds")
		})
	}
}

// byteChooser lets a fuzzer choose. After its bytes are used up, it chooses 0.
type byteChooser struct{ data []byte }

func (b *byteChooser) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	v := int(b.data[0])
	b.data = b.data[1:]
	if n > 256 && len(b.data) > 0 {
		v = v<<8 | int(b.data[0])
		b.data = b.data[1:]
	}
	return v % n
}

func FuzzLaws(f *testing.F) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(uint8(seed), data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		if len(data) > 4000 {
			return
		}
		w := newWorld(&byteChooser{data}, modes[kind%3], correct, kind/3%2 == 1)
		if err := w.run(100); err != nil {
			t.Fatal(err)
		}
	})
}
