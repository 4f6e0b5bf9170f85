package main_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/loadtest"
	"github.com/sluice-push/sluice/bench/internal/measure"
	websocket "github.com/sluice-push/sluice/bench/websocket"
)

// Every server runs in every cell, for a blink.
func TestEverything(t *testing.T) {
	r := loadtest.Everything(t, websocket.Run, websocket.ServerNames(), "-conns", "2", "-idle", "2", "-stream", "20ms")
	all := len(websocket.ServerNames())
	if len(r.Samples) != 9*all || len(r.Idle) != all || len(r.Targets) == 0 {
		t.Errorf("%d samples and %d servers that are idle of %d, %d targets", len(r.Samples), len(r.Idle), all, len(r.Targets))
	}
	for _, part := range []string{"**l100: echo of 64 KiB", "| sluice-http | ", "MB/s each way", "allocs/upgrade", "**targets**"} {
		if !strings.Contains(r.Tables, part) {
			t.Errorf("%q is not in:\n%s", part, r.Tables)
		}
	}
}

// A server that makes a difference in one cell only is left out of the others, unless it is asked for by name.
func TestChosen(t *testing.T) {
	var out bytes.Buffer
	if err := websocket.Run(strings.Fields("-rounds 1 -seconds 0.01 -conns 1 -cells s100,open"), &out); err != nil {
		t.Fatal(err)
	}
	echoes, opened, _ := strings.Cut(out.String(), "\nopen:")
	opened, _, _ = strings.Cut(opened, "\ntargets")
	for _, name := range websocket.ServerNames() {
		in := strings.Contains(echoes, "\n  "+name+" ")
		if !strings.Contains(opened, "\n  "+name+" ") || in == strings.HasSuffix(name, "-http") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-cells e9":            `nothing is called "e9"`,
		"-servers d":           `nothing is called "d"`,
		"-stream 0":            "see -help",
		"more":                 "see -help",
		"serve -server absent": `no server is called "absent"`,
	} {
		if err := websocket.Run(strings.Fields(args), new(bytes.Buffer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// Which targets there are in a cell, and which are met.
func TestTargets(t *testing.T) {
	one := func(v float64) measure.Spread { return measure.Spread{Median: v, Min: v, Max: v} }
	row := func(server string, cpu, allocs, p99 float64) load.Summary {
		return load.Summary{
			Server: server, CPU: one(cpu), Ratio: one(cpu / 10), Allocs: one(allocs), Latency: measure.Quantiles{P99: one(p99)},
		}
	}
	rows := []load.Summary{
		row("c", 10, 0, 1), row("sluice-loop", 12, 0, 3), row("sluice-goroutine", 15, 0.1, 1), row("gws", 20, 2, 9), row("gorilla", 14, 2, 9),
		row("gobwas", 13, 2, 9),
	}
	prints := []load.Footprint{
		{Server: "sluice-loop", Silent: 800, Spoke: 1000}, {Server: "gws", Spoke: 9000}, {Server: "gorilla", Silent: 999, Rested: 1},
	}
	best := "loop: CPU below gobwas's, the best of the others: yes"
	allocs := "loop: no allocation a message: yes"
	other := []string{"goroutine: CPU below gobwas's, the best of the others: no", "goroutine: no allocation a message: no"}
	for cell, want := range map[string][]string{
		"e100":   append([]string{"loop: CPU at most 1.15 × C: no", best, allocs}, other...),
		"p1000":  append([]string{"loop: CPU at most 1.30 × C: yes", "loop: p99 at most 2 × C: no", best, allocs}, other...),
		"bc":     append([]string{"loop: CPU at most 1.10 × C: no", best, allocs}, other...),
		"stream": append([]string{"loop: CPU at most 1.30 × C: yes", best, allocs}, other...),
		"open":   {best, other[0], "http: CPU below gorilla's, the best of the others: yes"}, // of those under net/http
		"idle":   {"loop: at most 921 B an idle session: no", "loop: below gorilla's 999 B, the best of the others: no"},
	} {
		rows := rows
		if cell == "open" {
			rows = append(slices.Clone(rows), row("sluice-http", 13.5, 60, 1))
		}
		var got []string
		for _, g := range websocket.Judge(cell, rows, prints) {
			got = append(got, fmt.Sprintf("%s: %s: %s", strings.TrimPrefix(g.Server, "sluice-"), strings.TrimPrefix(g.Target, cell+": "), g.Met))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%q, want\n%q", cell, got, want)
		}
	}
}
