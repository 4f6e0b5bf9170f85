package main_test

import (
	"bytes"
	"os"
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

// The servers of another commit, here this one again, are measured beside ours and compared with them.
func TestBefore(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := loadtest.Everything(t, library.Run, []string{"sluice-loop", "sluice-loop@before"}, "-conns", "5", "-cells", "a1", "-before", self)
	if want := "| sluice-loop | a1: CPU at most 1.05 × before | "; len(r.Samples) != 2 || !strings.Contains(r.Tables, want) {
		t.Errorf("%d samples, %q is not in:\n%s", len(r.Samples), want, r.Tables)
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-cells a9":            `nothing is called "a9"`,
		"-servers d":           `nothing is called "d"`,
		"-servers net@before":  `nothing is called "net@before"`,
		"-rounds 0":            "see -help",
		"more":                 "see -help",
		"serve -server absent": `no server is called "absent"`,
	} {
		if err := library.Run(strings.Fields(args), new(bytes.Buffer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
