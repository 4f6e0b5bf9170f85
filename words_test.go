package sluice_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plain are the folders whose code is written in the field's words: see CONTRIBUTING.md. A folder is added when it has been brought to them.
var plain = []string{
	"cmd/sluice", "codec", "internal", "push/api", "push/broker", "push/channel", "push/cluster", "push/config", "push/delta", "push/gateway", "push/hub",
	"push/internal", "push/laws", "push/metrics", "push/origin", "push/pace", "push/presence", "push/protocol", "push/pushtest", "push/timers",
	"reconnect", "rpc", "session", "splice", "timingwheel", "tools", "transport", "websocket", "workerpool",
}

// retired are words that had a meaning of our own where the field has a term, and subjects that name no thing.
var retired = regexp.MustCompile(`(?i)\b(whoever|somebody|nobody|those that|those who|the pen|the turn|seat|errand|crew|lookout|volley|barks?|barked|poured|spills?)\b`)

// checkWords returns a complaint for each retired word in a comment or an identifier.
func checkWords(folders []folder) []string {
	var complaints []string
	for _, f := range folders {
		if !isPlainFolder(f.name) {
			continue
		}
		for _, s := range f.files {
			for _, group := range s.file.Comments {
				for _, c := range group.List {
					if word := retired.FindString(c.Text); word != "" {
						complaints = append(complaints, fmt.Sprintf("%s:%d: %q: use the field's word, or name the thing", s.name, s.line(c.Pos()), word))
					}
				}
			}
		}
	}
	return complaints
}

func isPlainFolder(name string) bool {
	for _, p := range plain {
		if name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

// Folders that have been brought to the field's words stay so.
func TestWords(t *testing.T) {
	complain(t, checkWords(repository(t)))
}

// A planted word is found, and only in the folders that are plain.
func TestWordsAreFound(t *testing.T) {
	s, err := parseSource("internal/writer/x.go", []byte("package writer\n\n// Whoever has the pen writes.\nvar x int\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"internal/writer": 1, "examples": 0} {
		if got := checkWords([]folder{{name: name, files: []source{s}}}); len(got) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Documents that everybody reads stay short: what a reader needs first, and nothing that belongs to a decision record.
func TestDocumentsStayShort(t *testing.T) {
	for name, most := range map[string]struct{ bytes, lines int }{
		"README.md":          {16 << 10, 150},
		"ARCHITECTURE.md":    {12 << 10, 300},
		"docs/benchmarks.md": {20 << 10, 400},
	} {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(data, []byte("\n")); len(data) > most.bytes || lines > most.lines {
			t.Errorf("%s has %d bytes in %d lines, at most %d in %d are allowed: move reasons and history to docs/decisions",
				name, len(data), lines, most.bytes, most.lines)
		}
	}
}
