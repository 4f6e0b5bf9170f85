//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// run runs cases and returns the printed output.
func run(t *testing.T, s *suite, direction string, patterns ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var log strings.Builder
	s.log = &log
	err := s.run(ctx, direction, patterns)
	return log.String(), err
}

// wants fails a test unless all texts are in the output.
func wants(t *testing.T, printed string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			t.Errorf("%q is missing", text)
		}
	}
	if t.Failed() {
		t.Log(printed)
	}
}

// Both sides are tested, by chapter, each job in its own processes.
func TestPassed(t *testing.T) {
	t.Parallel()
	printed, err := run(t, programs(t, "websocket-echo"), "", "1.1", "1.2", lenient, "9.*", "12.1.1", "13.2.?")
	if err != nil {
		t.Error(err)
	}
	const table = `: 14 cases, 0 not passed
  chapter                        OK  NON-STRICT  INFORMATIONAL
   1 framing                      2           1              0
   9 limits and performance       1           0              0
  12 compression, payloads        1           0              0
  13 compression, parameters      9           0              0
     all                         13           1              0
`
	wants(t, printed, "server on event loops"+table, "server on goroutines"+table, "client"+table,
		"server-loop 13.2: 9 of 9 cases", "client 1-10: 3 of 3 cases")
	if strings.Contains(printed, "again") {
		t.Errorf("a case was run twice:\n%s", printed)
	}
}

// Every kind of failure is printed with its reason and fails the run. Cases that timed out run again, and no others.
func TestFailed(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{"server", "client"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			printed, err := run(t, programs(t, "websocket-echo"), direction, "1.1?")
			if !errors.Is(err, errFailed) {
				t.Errorf("error %v, want %v", err, errFailed)
			}
			wants(t, printed, ": 10 cases, 4 not passed\n",
				"  run twice, because the testsuite gave up waiting: "+lateOnce+" "+lateOft+"\n",
				"  "+fails+` FAILED: what came of it; how it was closed; we closed with 1002 "no"; after 1.2 s; see `,
				"  "+lateOft+" UNCLEAN: what came of it; how it was closed; nobody closed it; after 1.2 s; see ",
				"  "+unclean+" WRONG CODE: what came of it; how it was closed; after",
				"  "+lost+" NOT RUN: there is no result\n")
			if strings.Contains(printed, lateOnce+" FAILED") {
				t.Errorf("%s was passed the second time:\n%s", lateOnce, printed)
			}
		})
	}
}

// An agent whose server did not start fails, and the output names the log.
func TestServerFails(t *testing.T) {
	t.Parallel()
	s := programs(t, "websocket-absent")
	printed, err := run(t, s, "server", "1.1")
	if !errors.Is(err, errFailed) {
		t.Errorf("error %v, want %v", err, errFailed)
	}
	wants(t, printed, "job 1-10: websocket-absent ended before it was ready: see "+s.reports, "  1.1 NOT RUN: ", "1 cases, 1 not passed")
}

// A cancelled run does not pass.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := programs(t, "websocket-echo")
	s.log = &strings.Builder{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.run(ctx, "server", []string{"1.1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// The wait for a program that never reports to be ready ends with the context. A program that does not end when told to is an error.
func TestSilent(t *testing.T) {
	t.Parallel()
	s := programs(t, "websocket-silent")
	p, err := start(exec.Command(s.echo), filepath.Join(s.env, "server.log"), serverReady)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.ready(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := p.wait(); err == nil || !strings.Contains(err.Error(), "see "+filepath.Join(s.env, "server.log")) {
		t.Errorf("error %v", err)
	}
}

// Without the testsuite nothing runs.
func TestNoTestsuite(t *testing.T) {
	t.Parallel()
	s := programs(t, "websocket-echo")
	if err := os.Remove(filepath.Join(s.env, "bin", "python")); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, s, ""); err == nil || !strings.Contains(err.Error(), "ask the testsuite for its cases") {
		t.Errorf("error %v", err)
	}
}

// By default everything runs, but on goroutines only the cases without compression.
func TestAgents(t *testing.T) {
	t.Parallel()
	known := cases()
	for _, test := range []struct {
		direction string
		patterns  []string
		want      map[string]int
	}{
		{"", nil, map[string]int{"server-loop": totalCases, "server-goroutine": 201, "client": totalCases}},
		{"server", nil, map[string]int{"server-loop": totalCases, "server-goroutine": 201}},
		{"client", []string{"12.*"}, map[string]int{"client": 120}},
		{"", []string{"1.*", "13.1.1", "1.2"}, map[string]int{"server-loop": 201, "server-goroutine": 201, "client": 201}},
	} {
		agents, err := newAgents(known, test.direction, test.patterns)
		if err != nil {
			t.Fatal(err)
		}
		if len(agents) != len(test.want) {
			t.Errorf("%q %q: %d lanes, want %d", test.direction, test.patterns, len(agents), len(test.want))
		}
		for _, l := range agents {
			if len(l.cases) != test.want[l.name] {
				t.Errorf("%q %q: %s has %d cases, want %d", test.direction, test.patterns, l.name, len(l.cases), test.want[l.name])
			}
			var parts []string
			for _, j := range l.split() {
				parts = append(parts, j.cases...)
			}
			slices.Sort(parts)
			if whole := slices.Sorted(slices.Values(l.cases)); !slices.Equal(parts, whole) {
				t.Errorf("%s: the jobs have other cases than the lane", l.name)
			}
		}
	}
}

// An invalid choice of cases is refused.
func TestAgentsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		known     []string
		direction string
		patterns  []string
		want      string
	}{
		{cases()[1:], "", nil, "the testsuite has 516 cases, where 517 are expected"},
		{cases(), "both", nil, `direction "both"`},
		{cases(), "", []string{"1.*", "8.*"}, `cases "8.*": there is none`},
		{cases(), "", []string{"1.[", "1.1"}, `cases "1.[": syntax error in pattern`},
	} {
		if _, err := newAgents(test.known, test.direction, test.patterns); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// A missing or broken report is an error.
func TestBadReports(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{nil, "wstest has written no report"},
		{map[string]string{"index.json": "{"}, "index.json: unexpected end of JSON input"},
		{map[string]string{"index.json": `{"us": {"1.1": {"behavior": "FAILED", "reportfile": "a.json"}}}`}, "a.json: no such file"},
		{map[string]string{"index.json": `{"us": {"1.1": {"behavior": "FAILED", "reportfile": "a.json"}}}`, "a.json": "no"}, "a.json: invalid"},
	} {
		dir := t.TempDir()
		for name, text := range test.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readReport(dir, "us"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}
