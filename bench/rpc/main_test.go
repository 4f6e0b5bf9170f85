package main

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
)

func TestMain(m *testing.M) { loadtest.Main(m, main) }

// Every server is measured in every cell that it has, for a moment, and no call fails.
func TestRun(t *testing.T) {
	var out strings.Builder
	args := []string{"-rounds", "1", "-seconds", "0.05", "-callers", "1,40", "-conns", "1,20"}
	if err := run(context.Background(), args, nil, &out); err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for line := range strings.Lines(out.String()) {
		fields := strings.Split(strings.Trim(line, "|\n"), "|")
		name := strings.TrimSpace(fields[0])
		if len(fields) != 9 || name == "server" || name == "---" {
			continue
		}
		rows[name]++
		if failed := strings.TrimSpace(fields[8]); failed != "0" || strings.TrimSpace(fields[1]) == "0.00" {
			t.Error(line)
		}
	}
	for name, want := range map[string]int{
		"c": 3, sluice: 5, inline: 3, goroutine: 3, pooled: 1, netRPC: 5, grpcGo: 4, theader: 1,
	} {
		if rows[name] != want {
			t.Errorf("%d rows of %s, want %d, in\n%s", rows[name], name, want, out.String())
		}
	}
}

// Flags that make no sense are refused, with what is wrong.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-parts x": `no part "x"`, "-servers y": `no server "y"`, "-callers 0": `"0"`, "-conns a": `"a"`, "-rounds 0": "-rounds", "-size 60001": "-size",
	} {
		var out strings.Builder
		if err := run(context.Background(), strings.Fields(args), nil, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
