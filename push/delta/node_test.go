package delta_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/delta"
)

// nodePatience bounds the one process of Node, which takes a second or two.
const nodePatience = 2 * time.Minute

// question is the input of the Node script. answer is its output: the result of fossil-delta for our delta, and its own delta.
type (
	question struct {
		From  []byte `json:"from"`
		To    []byte `json:"to"`
		Delta []byte `json:"delta"`
	}
	answer struct {
		Applied []byte `json:"applied"`
		Created []byte `json:"created"`
		Error   string `json:"error"`
	}
)

// The npm package whose code the published SDKs contain applies our deltas, and we apply its deltas.
func TestFossilNode(t *testing.T) {
	folder := filepath.Join("testdata", "node")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err != nil {
		t.Fatalf("fossil-delta is not installed in %s: run make deps (%v)", folder, err)
	}
	var pairs []pair
	for seed := range uint64(400) {
		for _, m := range makers {
			pairs = append(pairs, m.make(newRand(seed)))
		}
	}
	row := row4K()
	pairs = append(pairs, pair{}, pair{nil, row.to}, pair{row.from, nil}, row, pair{row.to, row.to})

	var e delta.Encoder
	var ask bytes.Buffer
	lines := json.NewEncoder(&ask)
	for _, p := range pairs {
		if err := lines.Encode(question{p.from, p.to, e.AppendFossil(nil, p.from, p.to)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodePatience)
	defer cancel()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "node", "fossil.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = folder, &ask, &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v; if it is not installed, run make deps\n%s", err, &complaint)
	}

	answers := bufio.NewScanner(bytes.NewReader(out))
	answers.Buffer(nil, 1<<20)
	ours, theirs := 0, 0
	for i, p := range pairs {
		if !answers.Scan() {
			t.Fatalf("node answered %d of %d questions: %v\n%s", i, len(pairs), answers.Err(), &complaint)
		}
		var a answer
		if err := json.Unmarshal(answers.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		d := e.AppendFossil(nil, p.from, p.to)
		if a.Error != "" || !bytes.Equal(a.Applied, p.to) {
			t.Fatalf("%q to %q: by our %q node makes %q, %s", p.from, p.to, d, a.Applied, a.Error)
		}
		got, err := delta.ApplyFossil(nil, p.from, a.Created, len(p.to))
		if err != nil || !bytes.Equal(got, p.to) {
			t.Fatalf("%q to %q: by the %q of node we make %q, %v", p.from, p.to, a.Created, got, err)
		}
		ours, theirs = ours+len(d), theirs+len(a.Created)
	}
	if answers.Scan() {
		t.Errorf("node said more than it was asked: %q", answers.Bytes())
	}
	what := fmt.Sprintf("%d deltas: ours have %d bytes, those of fossil-delta %d", len(pairs), ours, theirs)
	if t.Log(what); ours > theirs {
		t.Error("ours should not be longer")
	}
}
