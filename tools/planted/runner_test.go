package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sum is a package with a test that finds its bugs.
var sum = map[string]string{
	"go.mod":     "module example.com/sum\n\ngo 1.25\n",
	"sum/sum.go": "package sum\n\n// Of returns the sum.\nfunc Of(a, b int) int {\n\treturn a + b\n}\n",
	"sum/sum_test.go": `package sum

import "testing"

func TestOf(t *testing.T) {
	if Of(1, 2) != 3 {
		t.Fatal("again: go test ./sum -seed 7")
	}
}
`,
}

// patch returns a patch that changes the result of Of.
func patch(was, is string) string {
	return "It is\nwrong.\n\n--- a/sum/sum.go\n+++ b/sum/sum.go\n@@ -3,4 +3,4 @@\n // Of returns the sum.\n func Of(a, b int) int {\n" +
		"-\treturn " + was + "\n+\treturn " + is + "\n }\n"
}

// TestRunner: the table says which bugs were found and which were not. A bug that cannot be planted is an error.
func TestRunner(t *testing.T) {
	for _, tt := range []struct {
		name, patch string
		want        string // in the table
		err         string
	}{
		{"found", patch("a + b", "a - b"), "| bug | It is wrong. | `go test ./sum -seed 7` |", ""},
		{"missed", patch("a + b", "b + a"), "| bug | It is wrong. | **not found** |", errMissed.Error()},
		{"outdated", patch("a * b", "b * a"), "", "does not apply any more"},
		{"nonsense", patch("a + b", "c"), "", "did not compile"},
		{"crash", patch("a + b", "func() int { panic(a) }()"), "", "does not say how to run it again"},
		{"silent", "--- a/sum/sum.go\n\n", "", "does not say what it plants"},
		{"none", "", "", "there is no bug to plant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range sum {
				write(t, filepath.Join(dir, name), text)
			}
			if tt.patch != "" {
				write(t, filepath.Join(dir, "sum/testdata/planted/bug.patch"), tt.patch)
			}
			if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "--quiet").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Chdir(dir)
			var out strings.Builder
			g := runner{folder: "sum", timeout: time.Minute, out: &out}
			err := g.run(t.Context())
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
			if _, err := os.Stat(g.copied); g.copied != "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the copy is left: %v", err)
			}
		})
	}
}

// TestFailsWithout: if the test fails without a bug, its failures prove nothing, and the run is an error.
func TestFailsWithout(t *testing.T) {
	dir := t.TempDir()
	for name, text := range sum {
		write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "a + b", "a - b"))
	}
	write(t, filepath.Join(dir, "sum/testdata/planted/bug.patch"), patch("a - b", "a + b"))
	if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Chdir(dir)
	g := runner{folder: "sum", timeout: time.Minute, out: new(strings.Builder)}
	if err := g.run(t.Context()); err == nil || !strings.Contains(err.Error(), "fails without any bug") {
		t.Errorf("error %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
