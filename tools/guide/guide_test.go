package guide_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every Go block in the pages is a part of an Example, or a program that builds.
func TestBlocks(t *testing.T) {
	examples := readExamples(t)
	for _, page := range []string{"library.md", "websocket.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := goBlocks(string(text))
		if len(blocks) < 10 {
			t.Fatalf("%s: found only %d blocks of Go", page, len(blocks))
		}
		for _, b := range blocks {
			t.Run(fmt.Sprintf("%s line %d", page, b.line), func(t *testing.T) {
				if strings.HasPrefix(b.text, "package main\n") {
					build(t, b.text)
					return
				}
				if want := unindented(b.text); !containsWhole(examples, want) {
					t.Errorf("%s:%d: no Example contains this block word for word:\n%s", page, b.line, b.text)
				}
			})
		}
	}
}

// containsWhole reports whether one of the texts contains want as whole lines.
func containsWhole(texts []string, want string) bool {
	for _, text := range texts {
		if strings.Contains("\n"+text, "\n"+want) {
			return true
		}
	}
	return false
}

// The search rejects differences and matches of partial lines.
func TestContainsWhole(t *testing.T) {
	text := []string{unindented("\tif a {\n\t\tb()\n\t}\n")}
	for want, ok := range map[string]bool{
		"if a {\n\tb()\n}\n":   true,
		"b()\n":                true,
		"if a {\n\tb()\n\n}\n": false,
		"()\n":                 false,
		"if a {\n\tb\n":        false,
	} {
		if containsWhole(text, unindented(want)) != ok {
			t.Errorf("%q: want %v", want, ok)
		}
	}
}

// readExamples returns the sources from which blocks may be copied.
func readExamples(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"codec", "reconnect", "timingwheel", "transport", "transport/udp", "websocket", "websocket/wire", "workerpool"} {
		names = append(names, filepath.Join("..", "..", p, "example_test.go"))
	}
	var texts []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, unindented(string(text)))
	}
	return texts
}

// unindented returns a text without the leading white space of its lines.
func unindented(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		if l := strings.TrimLeft(lines[i], "\t "); l != "" {
			lines[i] = l
		}
	}
	return strings.Join(lines, "")
}

// block is a Go block in a page.
type block struct {
	line int // of its first line, from 1
	text string
}

// goBlocks returns the Go blocks of a text, including those in lists.
func goBlocks(text string) []block {
	var blocks []block
	inside := false
	for i, line := range strings.SplitAfter(text, "\n") {
		switch bare := strings.TrimSpace(line); {
		case !inside && bare == "```go":
			inside = true
			blocks = append(blocks, block{line: i + 2})
		case inside && bare == "```":
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line
		}
	}
	return blocks
}

// build builds a program inside the module, without writing it to the module: it uses an overlay.
func build(t *testing.T, text string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "main.go")
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, "tools", "guide", "program", "main.go"): program},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{program: []byte(text), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", os.DevNull, "./tools/guide/program")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
