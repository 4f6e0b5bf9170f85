package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
)

func TestMain(m *testing.M) { loadtest.Main(m, main) }

// TestRun measures everything for a moment. Every cell has figures, and a proxy needs CPU.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(context.Background(), []string{"-rounds", "1", "-seconds", "0.1", "-cells", "1kx16,1m"}, &out); err != nil {
		t.Fatal(err)
	}
	figures := regexp.MustCompile(`[\d.]+`)
	for _, c := range cells[1:2] {
		rows := 0
		for line := range strings.Lines(out.String()) {
			rest, ok := strings.CutPrefix(line, "| "+c.what+" | 1 M calls | ")
			if !ok {
				continue
			}
			rows++
			fields := strings.Split(rest, " | ")
			if len(fields) != len(proxies) {
				t.Fatalf("a row of %d proxies: %s", len(fields), line)
			}
			for i, field := range fields {
				cpu := figures.FindAllString(field, -1)
				proxy, err := strconv.ParseFloat(cpu[0], 64)
				if err != nil || (proxy > 0) != (proxies[i] != "direct") || len(cpu) < 2 {
					t.Errorf("%s: %s, %v", proxies[i], field, err)
				}
			}
		}
		if rows != len(routes) {
			t.Errorf("%d rows of %s in\n%s", rows, c.what, out.String())
		}
	}
	for _, args := range [][]string{{"-cells", "x"}, {"-rounds", "0"}, {"-seconds", "0"}} {
		if err := run(context.Background(), args, &out); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestProxyEnds: a proxy that cannot be started, or whose server is not there, is an error and no hang.
func TestProxyEnds(t *testing.T) {
	b := &bench{binary: "/no/such/program", folder: t.TempDir(), route: routes[0], length: 1, samples: make(map[key][]sample)}
	if err := b.measure(context.Background(), cells[0], "sidecar"); err == nil {
		t.Error("a program that does not exist was measured")
	}
	if err := b.measure(context.Background(), cells[0], "none"); err == nil {
		t.Error("a proxy that does not exist was measured")
	}
	var out strings.Builder
	if err := run(context.Background(), []string{"serve", "-listen", "tcp:no"}, &out); err == nil {
		t.Error("a server listens nowhere")
	}
}
