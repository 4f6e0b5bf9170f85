package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	library "github.com/sluice-push/sluice/bench/library"
)

// Every server runs in every cell, for a blink.
func TestEverything(t *testing.T) {
	folder := t.TempDir()
	data, doc := filepath.Join(folder, "data.json"), filepath.Join(folder, "doc.md")
	var out bytes.Buffer
	err := library.Run([]string{
		"-rounds", "1", "-seconds", "0.02", "-conns", "20", "-idle", "20", "-burst", "20", "-rest", "30ms",
		"-servers", strings.Join(library.ServerNames(), ","), "-json", data, "-markdown", doc,
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Samples []struct {
			Cell, Server string
			Rate, CPU    float64
			Latency      struct{ P50, P99, P999, Max int64 } `json:"latency_ns"`
		}
		Idle, Burst, Targets []struct{ Server string }
	}
	text, err := os.ReadFile(data)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := len(library.ServerNames())
	if want := 7*all + (all - 2) + 2*(all-3); len(r.Samples) != want || len(r.Idle) != all || len(r.Burst) != all || len(r.Targets) == 0 {
		t.Errorf("%d samples, not %d, %d and %d servers in c and e, %d targets", len(r.Samples), want, len(r.Idle), len(r.Burst), len(r.Targets))
	}
	for _, s := range r.Samples {
		if l := s.Latency; s.Rate <= 0 || s.CPU <= 0 || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
			t.Errorf("impossible: %+v", s)
		}
	}
	tables, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"**b64k: echo of 64 KiB", "| sluice-goroutine | 0.", "**targets**"} {
		if !strings.Contains(string(tables), part) {
			t.Errorf("%q is not in:\n%s", part, tables)
		}
	}
	if !strings.Contains(out.String(), "sluice-goroutine") {
		t.Errorf("printed:\n%s", out.String())
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-cells a9":            `nothing is called "a9"`,
		"-servers d":           `nothing is called "d"`,
		"-rounds 0":            "see -help",
		"more":                 "see -help",
		"serve -server absent": `no server is called "absent"`,
	} {
		if err := library.Run(strings.Fields(args), new(bytes.Buffer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		max    int64
		counts [][2]int64
		want   [4]int64
	}{
		{name: "none"},
		{name: "one", max: 700, counts: [][2]int64{{703, 1}}, want: [4]int64{700, 700, 700, 700}},
		{name: "two", max: 9, counts: [][2]int64{{1, 1}, {9, 1}}, want: [4]int64{1, 9, 9, 9}},
		{name: "tail", max: 95, counts: [][2]int64{{10, 980}, {50, 10}, {80, 9}, {96, 1}}, want: [4]int64{10, 50, 80, 95}},
	} {
		if got := library.Quantiles(tt.max, tt.counts...); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   [3]float64
	}{
		{nil, [3]float64{}},
		{[]float64{3}, [3]float64{3, 3, 3}},
		{[]float64{4, 1, 2}, [3]float64{2, 1, 4}},
		{[]float64{4, 1, 2, 8}, [3]float64{3, 1, 8}},
	} {
		if got := library.Spread(tt.values...); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{[]float64{1, 2, 3}, "yes"},
		{[]float64{2, 2.1, 3}, "no, within the spread"},
		{[]float64{2.1, 2.2}, "no"},
	} {
		if got := library.Verdict(2, tt.values...); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.values, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.128: "0.13", 9.99: "9.99", 12.34: "12.3", 1234.5: "1234"} {
		if got := library.Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
