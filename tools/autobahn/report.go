package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The verdicts of the testsuite that count as passed. Informational cases explore behaviour that RFC 6455 leaves open.
const (
	ok            = "OK"
	nonStrict     = "NON-STRICT"
	informational = "INFORMATIONAL"
)

// notRun is a verdict of this command for a case without a result.
const notRun = "NOT RUN"

var passing = []string{ok, nonStrict, informational}

// result is the result of a case.
type result struct {
	verdict  string // of the messages; if those were right, of the closing handshake
	reason   string // if the case has not passed
	timedOut bool   // the testsuite gave up waiting
}

// passed reports whether the verdict counts as passed.
func (r result) passed() bool { return slices.Contains(passing, r.verdict) }

// entry is the entry of a case in index.json.
type entry struct {
	Behavior      string `json:"behavior"`
	BehaviorClose string `json:"behaviorClose"`
	ReportFile    string `json:"reportfile"`
}

// page holds the useful parts of the file of a case.
type page struct {
	Result            string  `json:"result"`
	ResultClose       string  `json:"resultClose"`
	RemoteCloseCode   *int    `json:"remoteCloseCode"`
	RemoteCloseReason string  `json:"remoteCloseReason"`
	WasNotClean       string  `json:"wasNotCleanReason"`
	OpenTimeout       bool    `json:"wasOpenHandshakeTimeout"`
	CloseTimeout      bool    `json:"wasCloseHandshakeTimeout"`
	DropTimeout       bool    `json:"wasServerConnectionDropTimeout"`
	Duration          float64 `json:"duration"` // in milliseconds
	Wirelog           [][]any `json:"wirelog"`
}

// readReport reads the results that wstest has written into a folder for an agent. They are keyed by case.
func readReport(folder, agent string) (map[string]result, error) {
	text, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("wstest has written no report into %s", folder)
	}
	if err != nil {
		return nil, err
	}
	var agents map[string]map[string]entry
	if err := json.Unmarshal(text, &agents); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, "index.json"), err)
	}
	results := make(map[string]result)
	for id, e := range agents[agent] {
		r := result{verdict: e.Behavior}
		if r.passed() {
			r.verdict = e.BehaviorClose
		}
		if r.passed() {
			results[id] = result{verdict: e.Behavior}
			continue
		}
		if err := r.explain(filepath.Join(folder, filepath.Base(e.ReportFile))); err != nil {
			return nil, err
		}
		results[id] = r
	}
	return results, nil
}

// explain sets the reason of a case that has not passed, from the file of the case.
func (r *result) explain(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p page
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	reasons := []string{p.Result, p.ResultClose}
	if p.RemoteCloseCode != nil {
		reasons = append(reasons, fmt.Sprintf("we closed with %d %q", *p.RemoteCloseCode, p.RemoteCloseReason))
	}
	if p.WasNotClean != "" {
		reasons = append(reasons, p.WasNotClean)
	}
	r.reason = strings.Join(reasons, "; ") + fmt.Sprintf("; after %.1f s; see %s", p.Duration/1000, file)
	r.timedOut = p.OpenTimeout || p.CloseTimeout || p.DropTimeout || slices.ContainsFunc(p.Wirelog, gaveUp)
	return nil
}

// gaveUp reports whether an event of the testsuite says that it failed (KLE) or closed (TIE) the connection because of a timeout.
func gaveUp(event []any) bool { return len(event) > 0 && (event[0] == "KLE" || event[0] == "TIE") }

// titles are the titles of the chapters.
var titles = map[int]string{
	1: "framing", 2: "pings and pongs", 3: "reserved bits", 4: "opcodes", 5: "fragmentation", 6: "UTF-8", 7: "closing",
	9: "limits and performance", 10: "fragments of our own", 12: "compression, payloads", 13: "compression, parameters",
}

// print prints a table of the agent's results by chapter, and the reason of each case that has not passed. It returns the number of complaints.
func (l *agent) print(w io.Writer) (bad int) {
	var chapters []int
	verdicts := slices.Clone(passing)
	counts := make(map[int]map[string]int)
	var complaints strings.Builder
	for _, id := range l.cases {
		r, ran := l.results[id]
		if !ran {
			r.verdict, r.reason = notRun, "there is no result"
		}
		n := chapter(id)
		if counts[n] == nil {
			counts[n] = make(map[string]int)
			chapters = append(chapters, n)
		}
		counts[n][r.verdict]++
		if !slices.Contains(verdicts, r.verdict) {
			verdicts = append(verdicts, r.verdict)
		}
		if !r.passed() {
			bad++
			fmt.Fprintf(&complaints, "  %s %s: %s\n", id, r.verdict, r.reason)
		}
	}
	slices.Sort(chapters)
	_, _ = fmt.Fprintf(w, "\n%s: %d cases, %d not passed\n", l.title, len(l.cases), bad)
	row := func(name string, cell func(verdict string) string) {
		_, _ = fmt.Fprintf(w, "  %-27s", name)
		for _, v := range verdicts {
			_, _ = fmt.Fprintf(w, "  %*s", max(len(v), 4), cell(v))
		}
		_, _ = fmt.Fprintln(w)
	}
	row("chapter", func(v string) string { return v })
	for _, n := range chapters {
		row(fmt.Sprintf("%2d %s", n, titles[n]), func(v string) string { return fmt.Sprint(counts[n][v]) })
	}
	row("   all", func(v string) string {
		sum := 0
		for _, of := range counts {
			sum += of[v]
		}
		return fmt.Sprint(sum)
	})
	if len(l.rerun) > 0 {
		_, _ = fmt.Fprintf(w, "  run twice, because the testsuite gave up waiting: %s\n", strings.Join(l.rerun, " "))
	}
	for _, text := range l.failures {
		fmt.Fprintf(&complaints, "  %s\n", text)
	}
	_, _ = fmt.Fprint(w, complaints.String())
	return bad + len(l.failures)
}
