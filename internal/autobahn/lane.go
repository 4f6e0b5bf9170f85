package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// all is how many cases the testsuite has.
const all = 517

// lane is one side of the connection on one engine.
type lane struct {
	name    string   // of its folder, and for the testsuite
	title   string   // for the reader
	server  bool     // we are the server
	args    []string // of the echo server
	cases   []string // in order
	results map[string]result
	again   []string // cases that were run twice
	broken  []string // what went wrong beside the cases, by job
}

// newLanes chooses the lanes and their cases out of those that are known.
func newLanes(known []string, direction string, patterns []string) ([]*lane, error) {
	if len(known) != all {
		return nil, fmt.Errorf("the testsuite has %d cases, where %d are expected: run tools/autobahn-env again", len(known), all)
	}
	if direction != "" && direction != "server" && direction != "client" {
		return nil, fmt.Errorf("direction %q: it is server or client", direction)
	}
	chosen, err := choose(known, patterns)
	if err != nil {
		return nil, err
	}
	plain := chosen
	if len(patterns) == 0 {
		plain = slices.DeleteFunc(slices.Clone(chosen), func(id string) bool { return chapter(id) >= 12 })
	}
	lanes := []*lane{
		{name: "server-loop", title: "server on event loops", server: true, cases: chosen},
		{name: "server-goroutine", title: "server on goroutines", server: true, args: []string{"-goroutine"}, cases: plain},
		{name: "client", title: "client", cases: chosen},
	}
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return direction != "" && l.server != (direction == "server") })
	for _, l := range lanes {
		l.results = make(map[string]result)
	}
	return lanes, nil
}

// choose returns the cases that match one of the patterns, in which * is any text; all when there are no patterns.
func choose(known, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return known, nil
	}
	used := make([]bool, len(patterns))
	var chosen []string
	for _, id := range known {
		matches := false
		for i, p := range patterns {
			ok, err := path.Match(p, id)
			if err != nil {
				return nil, fmt.Errorf("cases %q: %w", p, err)
			}
			used[i] = used[i] || ok
			matches = matches || ok
		}
		if matches {
			chosen = append(chosen, id)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("cases %q: there is none", patterns[i])
	}
	return chosen, nil
}

// chapter is the first number of a case.
func chapter(id string) int {
	first, _, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(first) //nolint:errcheck // the testsuite names its cases with numbers
	return n
}

// job is a part of a lane that one wstest runs.
type job struct {
	lane  *lane
	name  string
	cases []string
}

// folder is where the testsuite writes what came out.
func (s *suite) folder(j job) string { return filepath.Join(s.reports, j.lane.name, j.name) }

// split cuts a lane into jobs: the short chapters together, the long ones by their sections.
func (l *lane) split() []job {
	var jobs []job
	for _, id := range l.cases {
		name := "1-10"
		switch c := chapter(id); {
		case c == 9:
			name = "9"
		case c > 10:
			name = id[:strings.LastIndexByte(id, '.')]
		}
		i := slices.IndexFunc(jobs, func(j job) bool { return j.name == name })
		if i < 0 {
			i, jobs = len(jobs), append(jobs, job{lane: l, name: name})
		}
		jobs[i].cases = append(jobs[i].cases, id)
	}
	return jobs
}

// runLanes runs all jobs, the long ones first, and then alone what the testsuite gave up waiting for.
func (s *suite) runLanes(ctx context.Context, lanes []*lane) error {
	var jobs []job
	for _, l := range lanes {
		jobs = append(jobs, l.split()...)
		if err := os.RemoveAll(filepath.Join(s.reports, l.name)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(chapter(b.cases[0]), chapter(a.cases[0])) })
	s.runJobs(ctx, jobs)
	for _, l := range lanes {
		var late []string
		for _, id := range l.cases {
			if r := l.results[id]; !r.passed() && r.late {
				late = append(late, id)
			}
		}
		if len(late) == 0 {
			continue
		}
		s.say("%s: once again, with nothing beside: %s", l.name, strings.Join(late, " "))
		l.again = late
		s.runJobs(ctx, []job{{lane: l, name: "again", cases: late}})
	}
	return ctx.Err()
}

// runJobs runs jobs, some at a time, and adds what came out to their lanes. What goes wrong is
// for the lane to complain about.
func (s *suite) runJobs(ctx context.Context, jobs []job) {
	var mu sync.Mutex // guards the lanes and the log
	waiting := make(chan job)
	var workers sync.WaitGroup
	for range min(s.jobs, len(jobs)) {
		workers.Go(func() {
			for j := range waiting {
				begin := time.Now()
				results, err := s.runJob(ctx, j)
				mu.Lock()
				for id, r := range results {
					j.lane.results[id] = r
				}
				if err != nil {
					j.lane.broken = append(j.lane.broken, fmt.Sprintf("job %s: %v", j.name, err))
				}
				s.say("%s %s: %d of %d cases in %d s", j.lane.name, j.name, len(results), len(j.cases), int(time.Since(begin).Seconds()))
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		waiting <- j
	}
	close(waiting)
	workers.Wait()
}

// runJob runs one job and reads its report, of which there is a part even if it failed.
func (s *suite) runJob(ctx context.Context, j job) (map[string]result, error) {
	if err := os.MkdirAll(s.folder(j), 0o755); err != nil {
		return nil, err
	}
	run := s.runClient
	if j.lane.server {
		run = s.runServer
	}
	err := run(ctx, j)
	results, readErr := readReport(s.folder(j), j.lane.name)
	return results, cmp.Or(err, readErr)
}
