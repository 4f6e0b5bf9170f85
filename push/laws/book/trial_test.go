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

// TestTrial tries seconds of a real book, on a node that remembers all removals, and on one that remembers so few that clients which
// stall begin afresh.
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
			out, err := tr.try(ctx)
			if err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			t.Logf("%s\n%v", &log, out)
			if !out.sound() || out.changes != f.changed() || out.points != 4 || len(out.findings) != 2*len(kinds("")) {
				t.Errorf("%d changes, %d check points, %d clients:\n%v", out.changes, out.points, len(out.findings), out)
			}
			for _, f := range out.findings {
				// One that is far behind on a busy machine may be sent rows that have all changed since.
				if (f.differences > 0) != (f.client.form != "") && !(f.differences == 0 && f.client.kind.weak) {
					t.Errorf("%s was sent %d differences", f.client.name(), f.differences)
				}
				if f.published != out.changes || f.received == 0 || f.client.bytes.Load() == 0 || f.again > 0 && removals > out.changes {
					t.Errorf("%s: %+v", f.client.name(), f)
				}
			}
		})
	}
}

// TestCompare: a client whose book is not that of the mark is found out, and so is one that has gone.
func TestCompare(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing more is to come
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
		"gone":           {nil, best, true, "gave up"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(kind{name: "x"}, "", []string{"books:x"}, map[string]*ages{"books:x": {stamps: map[string][]stamp{}}})
			waits := ctx
			if tt.gone {
				close(c.ended)
				waits = t.Context()
			}
			tab := c.tables["books:x"]
			tab.enter(false, push.Position{Epoch: "e"})
			reached := tab.aim(goal)
			for i, l := range tt.levels {
				feedRow(t, tab, uint64(i+1), l)
			}
			f := &finding{client: c, checks: 1}
			f.compare(waits, mark{"books:x", 1, tt.best, goal}, reached, time.Now())
			out := &outcome{findings: []*finding{f}}
			got, sound := out.String(), out.sound()
			if sound != (tt.want == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "WRONG") == sound {
				t.Errorf("sound is %t:\n%s", out.sound(), got)
			}
		})
	}
}
