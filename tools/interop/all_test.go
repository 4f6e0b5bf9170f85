//go:build interop

package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// python returns a start function for a peer in the virtual environment.
func python(script string) func(*testing.T) client {
	return program("python", ".venv/requirements.txt", filepath.Join(".venv", "bin", "python"), "-B", script)
}

// rust starts the peer that cargo has built into the folder that make interop names.
func rust(t *testing.T) client {
	t.Helper()
	binary := filepath.Join(os.Getenv("CARGO_TARGET_DIR"), "debug", "tungstenite")
	if !filepath.IsAbs(binary) {
		t.Fatal("CARGO_TARGET_DIR does not say where the peer in Rust is: run make interop")
	}
	return program("rust", binary, binary)(t)
}

// peers are all peers, with the abilities of their interfaces.
var peers = []peer{
	nodePeer,
	{
		name: "undici", can: inflates, client: true,
		start: program("node", "node_modules/.package-lock.json", "node", "undici.mjs"),
	},
	{name: "Chromium", can: inflates | compresses | noCode, client: true, start: startBrowser},
	{
		name: "websockets", can: fragments | pings | inflates | compresses | windows | serverWindows | anyCode, client: true, server: true,
		start: python("websockets_peer.py"),
	},
	{
		name: "aiohttp", can: pings | inflates | compresses | windows | anyCode, client: true, server: true,
		start: python("aiohttp_peer.py"),
	},
	{name: "tungstenite", can: fragments | pings | anyCode | noCode, client: true, server: true, start: rust},
}

// table holds the results by scenario and column.
type table struct {
	mu      sync.Mutex
	columns []string
	cells   map[[2]string]bool // whether the scenario passed; absent if it did not run
}

func column(p peer, weConnect bool) string {
	if weConnect {
		return p.name + " server"
	}
	return p.name + " client"
}

// add records the result of one way to run a scenario. A cell is ok if all ways are.
func (r *table) add(p peer, weConnect bool, s scenario, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := [2]string{s.name, column(p, weConnect)}
	before, tried := r.cells[at]
	r.cells[at] = ok && (before || !tried)
}

// print prints the table. A dash means that the peer's interface cannot run the scenario.
func (r *table) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t%s\n", strings.Join(r.columns, "\t"))
	for _, s := range scenarios() {
		fmt.Fprint(w, s.name)
		for _, c := range r.columns {
			cell := "-"
			if ok, tried := r.cells[[2]string{s.name, c}]; ok {
				cell = "ok"
			} else if tried {
				cell = "FAILED"
			}
			fmt.Fprint(w, "\t", cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// TestAll runs all peers in all ways.
func TestAll(t *testing.T) {
	results := &table{cells: make(map[[2]string]bool)}
	for _, p := range peers {
		for _, weConnect := range []bool{false, true} {
			if p.client && !weConnect || p.server && weConnect {
				results.columns = append(results.columns, column(p, weConnect))
			}
		}
	}
	t.Run("peers", func(t *testing.T) {
		for _, p := range peers {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				run(t, p, serverWays, clientWays, results.add)
			})
		}
	})
	results.print()
	for _, c := range results.columns {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return results.cells[[2]string{s.name, c}] }) {
			t.Errorf("nothing was tried with %s", c)
		}
	}
}
