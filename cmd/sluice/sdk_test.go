package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// scenarios are what an official client has to get right against real nodes: a script beside the client that prints their names as a
// JSON array, or runs the one it is given the name of.
type scenarios struct {
	folder    string // where the script runs
	installed string // a file that is there when the client is
	command   []string
}

// sdkPatience bounds one scenario. The scenarios bound each of their steps themselves and say what they waited for; this is for one
// that hangs.
const sdkPatience = 2 * time.Minute

// TestSDK runs the official JavaScript client and an EventSource, unchanged.
func TestSDK(t *testing.T) {
	folder := filepath.Join("..", "..", "push", "gateway", "testdata", "sdk")
	runScenarios(t, scenarios{
		folder:    folder,
		installed: filepath.Join(folder, "node_modules", ".package-lock.json"),
		command:   []string{"node", "run.mjs"},
	})
}

// runScenarios runs all scenarios. Each is a process of its own, which this test serves: it starts and ends nodes as the scenario asks
// for it (the harness beside the script says how).
func runScenarios(t *testing.T, s scenarios) {
	if _, err := os.Stat(s.installed); err != nil {
		t.Fatalf("the official client is not installed in %s: run make deps (%v)", s.folder, err)
	}
	list := s.process(t.Context())
	out, err := list.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s is not installed: run make deps (%v)", s.command[0], err)
	}
	var names []string
	if err == nil {
		err = json.Unmarshal(out, &names)
	}
	if err != nil || len(names) == 0 {
		t.Fatalf("the scenarios cannot be listed; if packages are missing, run make deps: %v\n%s", err, stderrOf(err))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.run(t, name)
		})
	}
}

// process returns the script with arguments, to be started.
func (s scenarios) process(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.command[0], slices.Concat(s.command[1:], args)...)
	cmd.Dir = s.folder
	return cmd
}

func stderrOf(err error) []byte {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}

// request is what a scenario wants done.
type request struct {
	Do   string
	Args []string
}

// run runs one scenario to its end and does what it asks for.
func (s scenarios) run(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), sdkPatience)
	defer cancel()
	cmd := s.process(ctx, name)
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // a node that does not start ends the test below: nothing is left behind
		cancel()
		_ = cmd.Wait()
	}()
	serveScenario(t, stdout, stdin)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v (%v)\n%s", err, context.Cause(ctx), stderr)
	}
}

// serveScenario answers requests until the scenario has ended. There is one node at a time.
func serveScenario(t *testing.T, requests io.Reader, answers io.Writer) {
	var node *process
	lines := bufio.NewScanner(requests)
	for lines.Scan() {
		var r request
		_ = json.Unmarshal(lines.Bytes(), &r) // what is no request is for people
		answer := map[string]any{}
		switch r.Do {
		case "start":
			node = startNode(t, r.Args...)
			answer["address"] = node.public
		case "kill":
			node.kill()
		case "terminate":
			answer["code"] = node.terminate()
		default:
			t.Logf("the scenario says: %s", lines.Text())
			continue
		}
		if err := json.NewEncoder(answers).Encode(answer); err != nil {
			return // the scenario is gone; its exit code says why
		}
	}
}
