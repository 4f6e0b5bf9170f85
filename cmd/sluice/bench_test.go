package main_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// benchArgs returns the arguments of a short run of sluice bench.
func benchArgs(url string, more ...string) []string {
	args := []string{"bench", "--url", url, "--clients", "20", "--rate", "100", "--duration", "1s", "--warmup", "200ms", "--settle", "100ms"}
	return append(args, more...)
}

// openResult reads the result file of a run.
func openResult(t *testing.T, path string) *loadtest.Result {
	t.Helper()
	r, err := report.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A run against a node passes. Its output, exit code and file say so, and the node is measured. Two results can be compared.
func TestBench(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	folder := t.TempDir()
	files := []string{filepath.Join(folder, "a.json"), filepath.Join(folder, "b.json")}
	for i, file := range files {
		code, stdout, stderr := sluice.RunCommand("", nil, benchArgs("http://"+node.public, "--json", file, "--seed", fmt.Sprint(i+1))...)
		verdict, _, _ := strings.Cut(stdout, "\n")
		if code != 0 || !strings.Contains(verdict, "nothing lost, duplicated, out of order or corrupt") || !strings.Contains(stderr, "measuring") {
			t.Fatalf("code %d\n%s%s", code, stdout, stderr)
		}
		r := openResult(t, file)
		d := r.Deliveries
		if r.Connects.Clients != 20 || r.Publications.Sent == 0 || d.Expected != 20*r.Publications.Sent || d.Received != d.Expected {
			t.Errorf("clients %+v, publications %+v, deliveries %+v", r.Connects, r.Publications, d)
		}
		if report.Verdict(r) != verdict || !report.Sound(r) || r.Version == "" || r.Host == nil || r.Host.Toolchain != runtime.Version() {
			t.Errorf("the file says %s, and %+v", report.Verdict(r), r.Host)
		}
		if r.Spec.Clients != 20 || r.Spec.Rate != 100 || r.Spec.Seed != uint64(i+1) || r.Spec.Duration != time.Second {
			t.Errorf("spec %+v", r.Spec)
		}
		if runtime.GOOS == "linux" && (r.Server == nil || r.Server.Processes != 1 || r.Server.Peak < 1<<20 || r.Generator == nil) {
			t.Errorf("server %+v, generator %+v", r.Server, r.Generator)
		}
	}
	code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"bench", "compare"}, files...)...)
	for _, part := range []string{"different settings", "seed  1  → 2", "latency p50", "One run each"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, part) {
			t.Fatalf("compare, without %q: code %d\n%s%s", part, code, stdout, stderr)
		}
	}
}

// The flags select every kind of load.
func TestBenchShapes(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	for _, flags := range []string{
		"--shape market --channels 30 --each 5 --zipf 1.2",
		"--shape slow --stalled 0.2",
		"--shape storm --rate 50",
		"--shape idle",
		"--rate max --window 2",
		"--publish client --bytes 1000",
		"--warmup 0s --settle 0s",
	} {
		t.Run(flags, func(t *testing.T) {
			code, stdout, stderr := sluice.RunCommand("", nil, benchArgs("ws://"+node.public, strings.Fields(flags)...)...)
			if code != 0 {
				t.Errorf("code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// Clients behind a weak network receive everything, too. The summary and the file describe the network, and the server is measured as usual.
func TestBenchNetwork(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	file := filepath.Join(t.TempDir(), "a.json")
	code, stdout, stderr := sluice.RunCommand("", nil, benchArgs("http://"+node.public, "--network", "dsl,delay=30ms", "--json", file)...)
	for _, part := range []string{"through network dsl,delay=30ms\n", "latencies include the network: delay=30ms,jitter=5ms,down=1500kbit,up=384kbit\n"} {
		if code != 0 || !strings.Contains(stdout, part) {
			t.Fatalf("without %q: code %d\n%s%s", part, code, stdout, stderr)
		}
	}
	r := openResult(t, file)
	if d := r.Deliveries; r.Spec.Network != "dsl,delay=30ms" || d.Expected == 0 || d.Received != d.Expected || r.Latency.P50 < 30 {
		t.Errorf("network %q, deliveries %+v, latency %+v", r.Spec.Network, d, r.Latency)
	}
	if runtime.GOOS == "linux" && (r.Server == nil || r.Server.Processes != 1 || r.Server.Peak < 1<<20) {
		t.Errorf("server %+v", r.Server)
	}
}

func TestBenchRefuses(t *testing.T) {
	folder := t.TempDir()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "other.json")
	if err := os.WriteFile(file, []byte(`{"format": 9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"nobody there", []string{"--url", nobody}, 1, nobody + " does not answer: "},
		{"nobody there, but help", []string{"--url", nobody}, 1, "start a node with sluice serve --demo"},
		{"no URL", []string{"--url", "ftp://x"}, 2, "is not a server URL"},
		{"too few bytes", []string{"--bytes", "3"}, 2, "3 bytes"},
		{"no rate", []string{"--rate", "0"}, 2, "greater than 0, or max"},
		{"no number", []string{"--clients", "many"}, 2, "--clients"},
		{"unknown shape", []string{"--shape", "round"}, 2, "--shape must be one of"},
		{"an unknown network", []string{"--network", "4g"}, 2, "network: unknown name \"4g\": use none, dsl"},
		{"a network that cuts", []string{"--network", "flaky", "--shape", "slow"}, 2, "shapes one and market with a rate"},
		{"too few tokens", []string{"--tokens", file}, 2, "tokens for 1000 clients: use one for each"},
		{"no tokens", []string{"--tokens", file + ".none"}, 2, "--tokens"},
		{"an argument", []string{"more"}, 2, "unexpected argument more"},
		{"compare nothing", []string{"compare"}, 2, "a.json"},
		{"compare no file", []string{"compare", file, file + ".none"}, 2, "none"},
		{"compare another format", []string{"compare", file, file}, 1, "format 9, expected format 1"},
	} {
		code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"bench"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: code %d, stdout %q, stderr %q\nwant %d and %q", tt.name, code, stdout, stderr, tt.code, tt.stderr)
		}
	}
}

// If clients or publications are refused, the run fails, and the error names the flag that may help.
func TestBenchIsKeptOut(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	file := filepath.Join(t.TempDir(), "a.json")
	for _, tt := range []struct{ name, flags, verdict, stderr string }{
		{"unknown namespace", "--prefix nowhere:x-", "", "check --token, and that the namespace of channel nowhere:x-0 exists (--prefix)"},
		{"no way to publish", "--publish-url http://" + node.public + "/nowhere", "accepted none of ", "--publish and --publish-url"},
		{"a file that cannot be", "--json " + filepath.Join(file, "b.json"), "", "result file"},
	} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := sluice.RunCommand("", nil, benchArgs("http://"+node.public, strings.Fields(tt.flags)...)...)
		if code != 1 || !strings.Contains(stdout, tt.verdict) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: code %d\n%s%s", tt.name, code, stdout, stderr)
		}
	}
}

// The help of bench is that of bench run, with examples, although there is another subcommand.
func TestBenchHelp(t *testing.T) {
	for _, args := range []string{"bench --help", "bench run --help"} {
		code, stdout, stderr := sluice.RunCommand("", nil, strings.Fields(args)...)
		for _, part := range []string{"    sluice bench --clients 10000", "--json=FILE", "The exit code is 0", "bench compare a.json b.json"} {
			if code != 0 || stderr != "" || !strings.Contains(stdout, part) {
				t.Errorf("%s, without %q: code %d\n%s%s", args, part, code, stdout, stderr)
			}
		}
	}
	code, stdout, _ := sluice.RunCommand("", nil, "bench", "compare", "--help")
	if code != 0 || strings.Contains(stdout, "--clients") || !strings.Contains(stdout, "<b.json>") {
		t.Errorf("compare: code %d\n%s", code, stdout)
	}
	if _, stdout, _ = sluice.RunCommand("", nil, "--help"); strings.Contains(stdout, "bench-worker") || !strings.Contains(stdout, "bench compare") {
		t.Errorf("of all:\n%s", stdout)
	}
}

// bench prepares sluice bench as a user would start it.
func bench(t *testing.T, args []string) (cmd *exec.Cmd, stdout *bytes.Buffer, stderr *watched) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr = exec.Command(path, args...), &bytes.Buffer{}, &watched{}
	cmd.Stdout, cmd.Stderr, cmd.Env = stdout, stderr, environ()
	return cmd, stdout, stderr
}

// watched is a buffer that calls a function once, when it contains a text.
type watched struct {
	lockedBuffer
	text string
	call func()
	once sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.lockedBuffer.Write(p)
	if w.text != "" && strings.Contains(w.String(), w.text) {
		w.once.Do(w.call)
	}
	return n, err
}

// A run with clients in several processes has one result.
func TestBenchProcesses(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	file := filepath.Join(t.TempDir(), "a.json")
	cmd, stdout, stderr := bench(t, benchArgs("http://"+node.public, "--processes", "3", "--json", file))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	r := openResult(t, file)
	if r.Connects.Clients != 20 || r.Deliveries.Received != 20*r.Publications.Sent || r.Publications.Sent == 0 {
		t.Errorf("%+v %+v %+v", r.Connects, r.Publications, r.Deliveries)
	}
	if runtime.GOOS == "linux" && r.Generator.Processes < 3 {
		t.Errorf("generator %+v", r.Generator)
	}
}

// Ctrl-C ends a run with the results so far. The file is written, and the exit code says that the run is incomplete.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--demo")
	for _, processes := range []string{"1", "2"} {
		file := filepath.Join(t.TempDir(), "a.json")
		cmd, stdout, stderr := bench(t, benchArgs("http://"+node.public, "--duration", "10m", "--processes", processes, "--json", file))
		stderr.text = "measuring"
		stderr.call = func() { _ = cmd.Process.Signal(os.Interrupt) }
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "sluice: interrupted; the result covers the time until then") {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		r := openResult(t, file)
		if r.Connects.Clients != 20 || !r.Deliveries.Sound() || len(r.Problems) == 0 || !strings.Contains(stdout.String(), "20 clients") {
			t.Errorf("%+v %+v %q\n%s", r.Connects, r.Deliveries, r.Problems, stdout)
		}
	}
}
