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

// scenarios are tests of an official client against real nodes. A script beside the client prints their names as a JSON array, or runs the
// scenario of a given name.
type scenarios struct {
	folder    string // the script's working directory
	installed string // a file that exists if the client is installed
	command   []string
	isCluster bool // the nodes of the scenarios are gateways of clusters
}

// sdkPatience is the time limit of a scenario. Scenarios limit their own steps and report what they waited for; this limit is for a scenario
// that hangs.
const sdkPatience = 2 * time.Minute

// sdkScenarios returns the scenarios of the official JavaScript client and an EventSource, unchanged.
func sdkScenarios() scenarios {
	folder := filepath.Join("..", "..", "push", "gateway", "testdata", "sdk")
	return scenarios{
		folder:    folder,
		installed: filepath.Join(folder, "node_modules", ".package-lock.json"),
		command:   []string{"node", "run.mjs"},
	}
}

// TestSDK runs the scenarios with nodes that are hubs and gateways in one process.
func TestSDK(t *testing.T) { runScenarios(t, sdkScenarios()) }

// TestClusterSDK runs the same scenarios with gateways that get their channels from hubs.
func TestClusterSDK(t *testing.T) {
	s := sdkScenarios()
	s.isCluster = true
	runScenarios(t, s)
}

// runScenarios runs each scenario in a process of its own. The test starts and ends nodes at the request of the scenario; the harness beside the
// script documents that.
func runScenarios(t *testing.T, s scenarios) {
	if _, err := os.Stat(s.installed); err != nil {
		t.Fatalf("the official client is not installed in %s: run make deps (%v)", s.folder, err)
	}
	var which []string
	if s.isCluster {
		which = []string{"--cluster"}
	}
	list := s.process(t.Context(), which...)
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

// process returns the command that runs the script with arguments.
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

// request is a request of a scenario.
type request struct {
	Do   string
	Args []string
}

// run runs one scenario and serves its requests.
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
	defer func() { // if a node does not start, the test ends below; the process must not remain
		cancel()
		_ = cmd.Wait()
	}()
	s.serve(t, stdout, stdin)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v (%v)\n%s", err, context.Cause(ctx), stderr)
	}
}

// serve answers requests until the scenario has ended. At most one node runs at a time, or one pair of nodes.
func (s scenarios) serve(t *testing.T, requests io.Reader, answers io.Writer) {
	var node *process
	var nodes *pair
	lines := bufio.NewScanner(requests)
	for lines.Scan() {
		var r request
		_ = json.Unmarshal(lines.Bytes(), &r) // lines that are no requests are messages for people
		answer := map[string]any{}
		switch r.Do {
		case "start":
			node = s.start(t, r.Args)
			answer["address"], answer["internal"] = node.public, node.internal
		case "startPair", "startMoving":
			config, err := os.ReadFile(r.Args[0])
			if err != nil {
				t.Error(err)
				return
			}
			nodes = s.startPair(t, string(config), r.Do == "startMoving")
			answer["address"] = nodes.balance(t)
		case "killOne":
			nodes.nodes[0].kill()
		case "kill":
			node.kill()
		case "terminate":
			answer["code"] = node.terminate()
		default:
			t.Logf("the scenario says: %s", lines.Text())
			continue
		}
		if err := json.NewEncoder(answers).Encode(answer); err != nil {
			return // the scenario has ended; its exit code says why
		}
	}
}

// start starts a node, or a cluster with the arguments for its gateway. The many clusters run without the race detector, to save time.
func (s scenarios) start(t *testing.T, args []string) *process {
	t.Helper()
	if !s.isCluster {
		return startNode(t, args...)
	}
	plan := &clusterPlan{gateways: 1, program: plain, isSecure: true} // the arguments say whether clients need tokens
	at := slices.Index(args, "--config")
	config, err := os.ReadFile(args[at+1])
	must(t, err)
	plan.config, plan.args = string(config), slices.Delete(slices.Clone(args), at, at+2)
	if slices.Contains(args, "--demo") { // it adds namespaces to the gateway, which the hubs need too
		plan.config += `
  - {name: quotes, mode: table, history: {size: 1000, age: 10m}, delta: [fossil, merge]}
  - {name: ticks, history: {size: 100000, age: 10m, bytes: 64MiB}, delta: [fossil, merge]}
`
	}
	return startCluster(t, plan).gateways[0].process
}

// startPair starts two nodes with one broker. In a cluster they may ask for tokens, and have a place for each user, to which they move clients at once.
func (s scenarios) startPair(t *testing.T, config string, moves bool) *pair {
	t.Helper()
	if !s.isCluster {
		return startPair(t, config)
	}
	plan := &clusterPlan{config: config}
	if moves {
		plan.isSecure, plan.settings = true, "route: {policy: user}, rebind: {cooldown: 0s}"
	}
	c := startCluster(t, plan)
	return &pair{nodes: [2]*process{c.gateways[0].process, c.gateways[1].process}}
}
