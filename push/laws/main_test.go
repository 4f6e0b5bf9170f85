package laws_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("laws.duration", time.Minute, "how long to go on with new seeds")
	first    = flag.Uint64("laws.seed", 1, "the first seed")
	patience = flag.Duration("laws.patience", time.Minute, "how long anything may take; nothing is measured by it")
	only     = flag.String("laws.world", "", "the world to try; empty: all, in turn")
)

// shortly is how long the laws are tried when tests are to be short.
const shortly = 10 * time.Second

func TestMain(m *testing.M) {
	// One goroutine of the NATS server keeps the time for all its stores. It stays when the server is shut down in the moment in which it makes a
	// stream, whose store nobody closes then: that is the server's, and only a process that restarts it within itself can notice.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// worlds are what is tried, each with troubles of its own.
var worlds = []struct {
	name  string
	begin func(t *testing.T, w *world)
}{
	{"calm", func(t *testing.T, w *world) { w.onMemory(t, nil) }},
	{"kills", func(t *testing.T, w *world) { w.onMemory(t, []trouble{(*world).kill, (*world).lag}) }},
	{"gaps", func(t *testing.T, w *world) { w.onMemory(t, []trouble{(*world).gap, (*world).kill}) }},
	{"lives", func(t *testing.T, w *world) { w.onMemory(t, []trouble{(*world).renew, (*world).kill}) }},
	{"nats", func(t *testing.T, w *world) { w.onNATS(t, []trouble{(*world).kill, (*world).restart, (*world).lag}) }},
}

// TestLaws tries one seed after the other, in each world, until the time is over.
func TestLaws(t *testing.T) {
	if testing.Short() {
		*duration = min(*duration, shortly)
	}
	var all tally
	began := time.Now()
	defer func() { t.Logf("%v: %v", time.Since(began).Round(time.Second), &all) }()
	for seed := *first; seed == *first || time.Since(began) < *duration; seed++ {
		for _, kind := range worlds {
			if *only != "" && *only != kind.name {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", kind.name, seed), func(t *testing.T) {
				w := newWorld(t, seed)
				kind.begin(t, w)
				w.run(3)
				all.add(&w.tally)
			})
			if t.Failed() {
				t.Fatalf("again: go test -run TestLaws ./push/laws -laws.world %s -laws.seed %d -laws.duration 0s", kind.name, seed)
			}
		}
	}
	if missing := all.missing(); missing != "" {
		t.Errorf("there were no %s: nothing is shown", missing)
	}
}
