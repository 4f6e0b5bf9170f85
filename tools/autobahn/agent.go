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

// totalCases is how many cases the testsuite has.
const totalCases = 517

// agent is one side of the connection on one engine. Agent is the testsuite's word for an implementation under test.
type agent struct {
	name     string   // the name of the agent's folder, and its name for the testsuite
	title    string   // for the printed table
	server   bool     // we are the server
	args     []string // of the echo server
	cases    []string // in order
	results  map[string]result
	rerun    []string // cases that were run twice
	failures []string // errors other than failed cases, by job
}

// newAgents returns the agents of a direction, with the cases that match the patterns.
func newAgents(known []string, direction string, patterns []string) ([]*agent, error) {
	if len(known) != totalCases {
		return nil, fmt.Errorf("the testsuite has %d cases, where %d are expected: run tools/autobahn-env again", len(known), totalCases)
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
	agents := []*agent{
		{name: "server-loop", title: "server on event loops", server: true, cases: chosen},
		{name: "server-goroutine", title: "server on goroutines", server: true, args: []string{"-goroutine"}, cases: plain},
		{name: "client", title: "client", cases: chosen},
	}
	agents = slices.DeleteFunc(agents, func(l *agent) bool { return direction != "" && l.server != (direction == "server") })
	for _, l := range agents {
		l.results = make(map[string]result)
	}
	return agents, nil
}

// choose returns the cases that match one of the patterns, in which * is any text. Without patterns it returns all cases.
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

// chapter returns the first number of a case.
func chapter(id string) int {
	first, _, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(first) //nolint:errcheck // the testsuite names its cases with numbers
	return n
}

// job is a part of an agent's cases that one wstest runs.
type job struct {
	agent *agent
	name  string
	cases []string
}

// folder returns the folder for the testsuite's report on a job.
func (s *suite) folder(j job) string { return filepath.Join(s.reports, j.agent.name, j.name) }

// split divides an agent's cases into jobs: the short chapters together, the long ones by their sections.
func (l *agent) split() []job {
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
			i, jobs = len(jobs), append(jobs, job{agent: l, name: name})
		}
		jobs[i].cases = append(jobs[i].cases, id)
	}
	return jobs
}

// runAgents runs all jobs, the long ones first. Then it runs the cases that timed out once more, with nothing else running.
func (s *suite) runAgents(ctx context.Context, agents []*agent) error {
	var jobs []job
	for _, l := range agents {
		jobs = append(jobs, l.split()...)
		if err := os.RemoveAll(filepath.Join(s.reports, l.name)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(chapter(b.cases[0]), chapter(a.cases[0])) })
	s.runJobs(ctx, jobs)
	for _, l := range agents {
		var timedOut []string
		for _, id := range l.cases {
			if r := l.results[id]; !r.passed() && r.timedOut {
				timedOut = append(timedOut, id)
			}
		}
		if len(timedOut) == 0 {
			continue
		}
		s.printf("%s: once again, with nothing beside: %s", l.name, strings.Join(timedOut, " "))
		l.rerun = timedOut
		s.runJobs(ctx, []job{{agent: l, name: "again", cases: timedOut}})
	}
	return ctx.Err()
}

// runJobs runs jobs, s.jobs of them at a time, and adds the results and errors to their agents.
func (s *suite) runJobs(ctx context.Context, jobs []job) {
	var mu sync.Mutex // guards the agents and the log
	waiting := make(chan job)
	var workers sync.WaitGroup
	for range min(s.jobs, len(jobs)) {
		workers.Go(func() {
			for j := range waiting {
				begin := time.Now()
				results, err := s.runJob(ctx, j)
				mu.Lock()
				for id, r := range results {
					j.agent.results[id] = r
				}
				if err != nil {
					j.agent.failures = append(j.agent.failures, fmt.Sprintf("job %s: %v", j.name, err))
				}
				s.printf("%s %s: %d of %d cases in %d s", j.agent.name, j.name, len(results), len(j.cases), int(time.Since(begin).Seconds()))
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

// runJob runs one job and reads its report. Even a failed job has a partial report.
func (s *suite) runJob(ctx context.Context, j job) (map[string]result, error) {
	if err := os.MkdirAll(s.folder(j), 0o755); err != nil {
		return nil, err
	}
	run := s.runClient
	if j.agent.server {
		run = s.runServer
	}
	err := run(ctx, j)
	results, readErr := readReport(s.folder(j), j.agent.name)
	return results, cmp.Or(err, readErr)
}
