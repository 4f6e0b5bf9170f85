package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cluster "github.com/sluice-push/sluice/bench/cluster"
	"github.com/sluice-push/sluice/bench/internal/node"
)

// Every trial runs, with few clients, and prints what it measured.
func TestEverything(t *testing.T) {
	binary, remove, err := node.Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	for name, want := range map[string][]string{
		"rebind":  {"  user    joins  ", "  user    leaves  ", "  user    comes back  "},
		"routes":  {"  canary  ", "  least_loaded  "},
		"restart": {"restart: 2 hubs and 3 gateways"},
		"cost":    {"  2  ", "  10  "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tables.json")
			var out bytes.Buffer
			args := []string{"-sluice", binary, "-trials", name, "-clients", "40", "-rounds", "1", "-calm", "3s", "-spread", "200ms", "-rate", "50"}
			args = append(args, "-seconds", "1", "-shapes", "2", "-policies", "user", "-json", file)
			if err := cluster.Run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			for _, part := range want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("%q is not in:\n%s", part, out.String())
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var tables []struct{ Rows [][]string }
			if err := json.Unmarshal(text, &tables); err != nil || len(tables) != 1 || len(tables[0].Rows) == 0 {
				t.Errorf("%v, %s", err, text)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-trials rebnd": `no trial is called "rebnd": use rebind, routes, restart or cost`,
		"-clients 0":    "-clients, -rounds, -seconds and -rate have to be positive; see -help",
		"more":          "-clients, -rounds, -seconds and -rate have to be positive; see -help",
	} {
		if err := cluster.Run(t.Context(), strings.Fields(args), new(bytes.Buffer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
