// Package proctest builds an example and runs it as a process, for tests that speak to it as users do. Everything is bounded in
// time: a process that lives for more than a minute is killed, which fails whatever waits for it.
package proctest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// lifetime is how long a process may live.
const lifetime = time.Minute

// Program is a command that is built, with the race detector, when it is first started. Its methods may be called concurrently.
type Program struct {
	folder string
	once   sync.Once
	dir    string // made for it
	path   string // of what was built, under the name of its folder
	err    error
	output []byte // of go build
}

// New returns the command in a folder, relative to that of the test.
func New(folder string) *Program { return &Program{folder: folder} }

func (p *Program) build() {
	folder, err := filepath.Abs(p.folder)
	if err != nil {
		p.err = err
		return
	}
	if p.dir, p.err = os.MkdirTemp("", "sluice-example-"); p.err != nil {
		return
	}
	p.path = filepath.Join(p.dir, filepath.Base(folder))
	if runtime.GOOS == "windows" {
		p.path += ".exe"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p.output, p.err = exec.CommandContext(ctx, "go", "build", "-race", "-o", p.path, p.folder).CombinedOutput()
}

// Remove deletes what was built, when no process of it runs any more.
func (p *Program) Remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// Process is a program that runs. Its methods are for the goroutine of the test.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	input  io.WriteCloser
	lines  *bufio.Scanner
	stderr bytes.Buffer // complete when the process has ended
	seen   []string
	ended  bool
}

// Start runs the program. It is killed at the end of the test if it still runs.
func (p *Program) Start(t testing.TB, args ...string) *Process {
	t.Helper()
	if p.once.Do(p.build); p.err != nil {
		t.Fatalf("go build %s: %v\n%s", p.folder, p.err, p.output)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	r := &Process{t: t, cmd: exec.CommandContext(ctx, p.path, args...)}
	// Otherwise the race detector waits for a second when the program ends.
	r.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=10")
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.input, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		cancel()
		_ = r.wait() // it was killed, or has ended before
	})
	return r
}

// Line reads what the process prints until a line contains text, and returns that line.
func (r *Process) Line(text string) string {
	r.t.Helper()
	for r.lines.Scan() {
		r.seen = append(r.seen, r.lines.Text())
		if strings.Contains(r.lines.Text(), text) {
			return r.lines.Text()
		}
	}
	_ = r.wait()
	r.t.Fatalf("the process never said %q but\n%s\nand on standard error\n%s", text, strings.Join(r.seen, "\n"), &r.stderr)
	return ""
}

// After waits for a line that contains text, and returns what follows text on it.
func (r *Process) After(text string) string {
	r.t.Helper()
	_, rest, _ := strings.Cut(r.Line(text), text)
	return rest
}

// Type sends a line to standard input.
func (r *Process) Type(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.input, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// EndInput ends standard input, as ^D does.
func (r *Process) EndInput() {
	r.t.Helper()
	if err := r.input.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// Signal sends a signal.
func (r *Process) Signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// Exit waits until the process has ended, and returns its status, all it has printed, and what went to standard error. A data
// race in the process is status 66.
func (r *Process) Exit() (status int, stdout, stderr string) {
	r.t.Helper()
	if err := r.wait(); err != nil {
		if exit := new(exec.ExitError); !errors.As(err, &exit) {
			r.t.Fatal(err)
		}
	}
	return r.cmd.ProcessState.ExitCode(), strings.Join(r.seen, "\n"), r.stderr.String()
}

// End sends a signal and expects the process to end in order. It returns all it has printed.
func (r *Process) End(s os.Signal) string {
	r.t.Helper()
	r.Signal(s)
	status, stdout, stderr := r.Exit()
	if status != 0 {
		r.t.Errorf("status %d after %v\n%s\n%s", status, s, stdout, stderr)
	}
	return stdout
}

// wait reads what the process still prints and waits for its end.
func (r *Process) wait() error {
	if r.ended {
		return nil
	}
	r.ended = true
	for r.lines.Scan() {
		r.seen = append(r.seen, r.lines.Text())
	}
	if err := r.lines.Err(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		_ = r.cmd.Process.Kill() // a line too long for the scanner: nobody reads the rest
		_ = r.cmd.Wait()
		return err
	}
	return r.cmd.Wait()
}
