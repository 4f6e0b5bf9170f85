package laws_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("laws.duration", 25*time.Second, "how long to go on with new seeds")
	first    = flag.Uint64("laws.seed", 1, "the first seed")
	patience = flag.Duration("laws.patience", time.Minute, "how long anything may take; nothing is measured by it")
	only     = flag.String("laws.cluster", "", "the cluster to try; empty: all, in turn")
)

// shortDuration limits the duration with -short.
const shortDuration = 10 * time.Second

func TestMain(m *testing.M) {
	// A goroutine of the NATS server keeps the time for all its stores. It remains if the server is shut down at the moment in which it creates
	// a stream, because the server then does not close that store. Only a process that restarts the server within itself can notice this.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// clusters are the configurations under test, each with its own faults.
var clusters = []struct {
	name  string
	begin func(t *testing.T, w *cluster)
}{
	{"calm", func(t *testing.T, w *cluster) { w.onMemory(t, nil) }},
	{"kills", func(t *testing.T, w *cluster) { w.onMemory(t, []fault{(*cluster).kill, (*cluster).lag}) }},
	{"gaps", func(t *testing.T, w *cluster) { w.onMemory(t, []fault{(*cluster).gap, (*cluster).kill}) }},
	{"lives", func(t *testing.T, w *cluster) { w.onMemory(t, []fault{(*cluster).renew, (*cluster).kill}) }},
	{"nats", func(t *testing.T, w *cluster) {
		w.onNATS(t, []fault{(*cluster).kill, (*cluster).restart, (*cluster).lag})
	}},
	{"links", func(t *testing.T, w *cluster) {
		w.loads.channel = "table:flipped"
		w.onLinks(t, 3, []fault{
			(*cluster).kill, (*cluster).lag, (*cluster).breakLinks, (*cluster).slowLinks, (*cluster).restartHub, (*cluster).lagHub, (*cluster).moveHub,
			(*cluster).flip,
		})
	}},
	{"link-lives", func(t *testing.T, w *cluster) {
		w.onLinks(t, 2, []fault{(*cluster).renew, (*cluster).breakLinks, (*cluster).slowLinks, (*cluster).restartHub})
	}},
}

// TestLaws runs one seed after the other, each on every cluster, until the time is over.
func TestLaws(t *testing.T) {
	if testing.Short() {
		*duration = min(*duration, shortDuration)
	}
	var all counters
	began := time.Now()
	defer func() { t.Logf("%v: %v", time.Since(began).Round(time.Second), &all) }()
	for seed := *first; seed == *first || time.Since(began) < *duration; seed++ {
		for _, kind := range clusters {
			if *only != "" && *only != kind.name {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", kind.name, seed), func(t *testing.T) {
				w := newCluster(t, seed)
				kind.begin(t, w)
				w.run(3)
				all.add(&w.counters)
			})
			if t.Failed() {
				t.Fatalf("again: go test -run TestLaws ./push/laws -laws.cluster %s -laws.seed %d -laws.duration 0s", kind.name, seed)
			}
		}
	}
	if missing := all.missing(); missing != "" {
		t.Errorf("there were no %s: nothing is shown", missing)
	}
}
