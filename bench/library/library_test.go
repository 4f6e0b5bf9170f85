package main_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	library "github.com/sluice-push/sluice/bench/library"
)

// Every server runs in every cell, for a blink.
func TestEverything(t *testing.T) {
	r := loadtest.Everything(t, library.Run, library.ServerNames(), "-conns", "20", "-idle", "20", "-burst", "20")
	all := len(library.ServerNames())
	if want := 7*all + (all - 2) + 2*(all-3); len(r.Samples) != want || len(r.Idle) != all || len(r.Burst) != all || len(r.Targets) == 0 {
		t.Errorf("%d samples, not %d, %d and %d servers in c and e, %d targets", len(r.Samples), want, len(r.Idle), len(r.Burst), len(r.Targets))
	}
	for _, part := range []string{"**b64k: echo of 64 KiB", "| sluice-goroutine | 0.", "**targets**"} {
		if !strings.Contains(r.Tables, part) {
			t.Errorf("%q is not in:\n%s", part, r.Tables)
		}
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
