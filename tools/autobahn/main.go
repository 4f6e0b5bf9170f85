// Command autobahn runs the Autobahn testsuite against package websocket, as a server and as a client, and prints the results:
//
//	go run ./tools/autobahn -env "$(tools/autobahn-env)"
//
// `make autobahn` does both. Each agent is one side of the connection on one engine: the echo server of the examples on event loops, and on
// goroutines, tested by wstest as a client; and a client of [websocket.Dial], tested by wstest as a server. The cases of an agent are divided
// into jobs. Each job runs its own wstest, and as many jobs run at a time as there are processors. All 517 cases must run and pass, with
// compression. On goroutines, chapters 12 and 13 run only when they are asked for, because they test the same code again.
//
// Some cases of the testsuite time out after a second. A case that timed out runs once more with nothing else running, and the output says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// suite holds the settings of a run.
type suite struct {
	env     string    // folder for the reports of wstest
	reports string    // folder for what wstest writes
	echo    string    // the program to test as a server; if empty, the echo server of the examples is built
	jobs    int       // how many run at a time
	log     io.Writer // receives the printed output
}

func main() {
	s := &suite{log: os.Stdout}
	flag.StringVar(&s.env, "env", "", "`folder` of the virtual environment, as tools/autobahn-env prints it")
	flag.StringVar(&s.reports, "reports", "bin/autobahn", "`folder` for the pages and files that the testsuite writes")
	flag.IntVar(&s.jobs, "jobs", runtime.GOMAXPROCS(0), "how many parts run at a time")
	patterns := flag.String("cases", "", "only cases like these: '1.* 12.3.*'; by default all 517")
	direction := flag.String("direction", "", "only this side of ours: server or client; by default both")
	timeout := flag.Duration("timeout", 3*time.Hour, "how long everything may take")
	flag.Parse()
	if flag.NArg() > 0 || s.env == "" || s.jobs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	err := s.run(ctx, *direction, strings.Fields(*patterns))
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "autobahn:", err)
		os.Exit(1)
	}
}

// errFailed is the error of run if a case has not passed; the log says which.
var errFailed = errors.New("not every case was passed")

// run runs the cases that match one of the patterns, or all if there are none, in one direction or in both.
func (s *suite) run(ctx context.Context, direction string, patterns []string) error {
	reports, err := filepath.Abs(s.reports)
	if err != nil {
		return err
	}
	s.reports = reports
	known, err := s.known(ctx)
	if err != nil {
		return err
	}
	agents, err := newAgents(known, direction, patterns)
	if err != nil {
		return err
	}
	if s.echo == "" {
		remove, err := s.build(ctx)
		if err != nil {
			return err
		}
		defer remove()
	}
	for _, l := range agents {
		s.printf("%s: %d cases, called %s", l.title, len(l.cases), l.name)
	}
	begin := time.Now()
	if err := s.runAgents(ctx, agents); err != nil {
		return err
	}
	failed := false
	for _, l := range agents {
		failed = l.print(s.log) > 0 || failed
	}
	s.printf("autobahn: %d s; the testsuite's own pages are in %s", int(time.Since(begin).Seconds()), s.reports)
	if failed {
		return errFailed
	}
	return nil
}

// known returns all cases of the testsuite, in order.
func (s *suite) known(ctx context.Context) ([]string, error) {
	const list = `from autobahntestsuite.case import Cases
print("\n".join(c.__name__[len("Case"):].replace("_", ".") for c in Cases))`
	out, err := exec.CommandContext(ctx, s.python(), "-c", list).Output()
	if err != nil {
		return nil, fmt.Errorf("ask the testsuite for its cases: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// build builds the echo server. The function remove deletes it.
func (s *suite) build(ctx context.Context) (remove func(), err error) {
	dir, err := os.MkdirTemp("", "autobahn-")
	if err != nil {
		return nil, err
	}
	s.echo = filepath.Join(dir, "websocket-echo")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", "examples", "-o", s.echo, "./websocket-echo").CombinedOutput()
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("build the echo server: %w: %s", err, out)
	}
	return func() { _ = os.RemoveAll(dir) }, nil
}

// printf prints a line to the log.
func (s *suite) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.log, format+"\n", args...) }
