package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
)

// TestTrial replays seconds of a real book. One node remembers all removals. Another remembers so few that stalled clients start with a new
// snapshot.
func TestTrial(t *testing.T) {
	const recorded = 8 * time.Second
	f, err := readFeed(filepath.Join(cut, cutName+".gz"), "books:x", false, recorded)
	if err != nil {
		t.Fatal(err)
	}
	sluice := program(t)
	for name, removals := range map[string]int{"many removals": 10_000, "few removals": 50} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			tr := trial{
				program: sluice, broker: "memory", folder: cut, instruments: []string{cutName}, speed: 20, points: 3, recorded: recorded,
				removals: removals, stall: 500 * time.Millisecond, weak: "down=8Mbit,up=8Mbit", patience: time.Minute,
				forms: []string{"", "merge"}, log: &log,
			}
			out, err := tr.execute(ctx)
			if err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			t.Logf("%s\n%v", &log, out)
			if !out.passed() || out.changes != f.changed() || out.points != 4 || len(out.results) != 2*len(kinds("")) {
				t.Errorf("%d changes, %d check points, %d clients:\n%v", out.changes, out.points, len(out.results), out)
			}
			for _, f := range out.results {
				// On a busy machine, a client that is far behind may get no deltas, because all of its rows have changed since.
				if (f.deltas > 0) != (f.client.form != "") && !(f.deltas == 0 && f.client.kind.weak) {
					t.Errorf("%s was sent %d differences", f.client.name(), f.deltas)
				}
				if f.published != out.changes || f.received == 0 || f.client.bytes.Load() == 0 || f.resubscribed > 0 && removals > out.changes {
					t.Errorf("%s: %+v", f.client.name(), f)
				}
			}
		})
	}
}

// TestCompare detects a client whose book differs from the expectation, and a client that has ended.
func TestCompare(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no more publications will come
	goal := bookOf("b 99 1", "a 101 1")
	best := quote{"99", "1", "101", "1"}
	bid, ask := newChange("b", "99", "1", 1), newChange("a", "101", "1", 1)
	for name, tt := range map[string]struct {
		levels []change
		best   quote
		gone   bool
		want   string
	}{
		"right":          {[]change{bid, ask}, best, false, ""},
		"a row is old":   {[]change{newChange("b", "99", "2", 1), ask}, best, false, "1 differ"},
		"a row is there": {[]change{bid, ask, newChange("b", "1", "1", 1)}, best, false, "1 are too many"},
		"a row is not":   {[]change{bid}, best, false, "1 are missing"},
		"another quote":  {[]change{bid, ask}, quote{}, false, "the exchange says"},
		"gone":           {nil, best, true, "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(clientKind{name: "x"}, "", []string{"books:x"}, map[string]*rowHistory{"books:x": {byKey: map[string][]rowChange{}}})
			waits := ctx
			if tt.gone {
				close(c.ended)
				waits = t.Context()
			}
			tab := c.tables["books:x"]
			tab.subscribed(false, push.Position{Epoch: "e"})
			reached := tab.setGoal(goal)
			for i, l := range tt.levels {
				feedRow(t, tab, uint64(i+1), l)
			}
			f := &clientResult{client: c, checks: 1}
			f.compare(waits, expectation{"books:x", 1, tt.best, goal}, reached, time.Now())
			out := &result{results: []*clientResult{f}}
			got, passed := out.String(), out.passed()
			if passed != (tt.want == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "WRONG") == passed {
				t.Errorf("sound is %t:\n%s", out.passed(), got)
			}
		})
	}
}
