package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// The programs that tests run as processes. Each is built when it is first needed: the command as tests run it, the command as users run it, and
// a NATS server.
var (
	binary     = builder("sluice", "-race", ".")
	plain      = builder("sluice-plain", ".")
	natsServer = builder("nats-server", "github.com/nats-io/nats-server/v2")
)

// built returns the folder of these programs.
var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "sluice-test-") })

func builder(name string, args ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := built()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		out, err := exec.Command("go", append([]string{"build", "-o", path}, args...)...).CombinedOutput()
		if err != nil {
			return "", &buildError{err, string(out)}
		}
		return path, nil
	})
}

type buildError struct {
	error
	output string
}

func (e *buildError) Error() string { return e.error.Error() + "\n" + e.output }

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// process is a running node, started as users start it.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	public   string // host:port; greeted is closed after public and internal are set
	internal string
	grpc     string // where gRPC is served: at an address of its own, or the public one
	tcp      string // likewise, if it has a port for TCP
	link     string // likewise, if gateways can connect
	stderr   *lockedBuffer
	greeted  chan struct{} // closed when the node has printed its addresses, or its output has ended
	exited   chan struct{}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startNode runs sluice serve with additional arguments and waits until it prints its addresses. By default the kernel chooses the ports. The
// node is killed at the end of the test at the latest. A data race in the node fails the test.
func startNode(t testing.TB, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, path, args...)
}

// startProgram is startNode with another program.
func startProgram(t testing.TB, path string, args ...string) *process {
	t.Helper()
	p := launch(t, exec.Command(path, serveArgs(t, args)...))
	testwait.Receive(t, p.greeted) // or the node has ended
	if p.internal == "" {
		t.Fatalf("the node did not start:\n%s", p.stderr)
	}
	return p
}

// serveArgs returns the given arguments of a node, with defaults for the others.
func serveArgs(t testing.TB, args []string) []string {
	t.Helper()
	base := []string{"serve"}
	joined := strings.Join(args, " ")
	if !strings.Contains(joined, "--listen") {
		base = append(base, "--listen", "127.0.0.1:0")
	}
	if !strings.Contains(joined, "--internal") {
		base = append(base, "--internal", "127.0.0.1:0")
	}
	if !strings.Contains(joined, "--data") {
		base = append(base, "--data", t.TempDir())
	}
	return append(base, args...)
}

// launch starts a node and does not wait for it.
func launch(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, stderr: &lockedBuffer{}, greeted: make(chan struct{}), exited: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	p.cmd.Env = environ()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.listen(stdout)
		_, _ = io.Copy(io.Discard, stdout)
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.stderr.String(), "DATA RACE") {
			t.Errorf("the node had a data race:\n%s", p.stderr)
		}
		if t.Failed() {
			t.Logf("the node said:\n%s", p.stderr)
		}
	})
	return p
}

// listen reads the node's addresses from its output.
func (p *process) listen(stdout io.Reader) {
	defer close(p.greeted)
	lines := bufio.NewScanner(stdout)
	for p.internal == "" && lines.Scan() {
		field, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		rest = strings.TrimSpace(rest)
		switch field {
		case "websocket":
			_, rest, _ = strings.Cut(rest, "://") // ws or wss
			p.public = strings.TrimSuffix(rest, "/connection/websocket")
		case "grpc":
			p.grpc = rest
		case "tcp":
			p.tcp = rest
		case "link":
			p.link = rest
		case "health":
			p.internal = strings.TrimSuffix(strings.TrimPrefix(rest, "http://"), "/health/ready")
		}
	}
}

// environ returns the environment without settings of sluice, because the developer's settings must not affect the nodes.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLUICE_") })
}

// kill kills the process, as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	testwait.Receive(p.t, p.exited)
}

// terminate tells the process to end and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.t.Fatal("the node did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// api calls a method of the HTTP API and returns its result. An error of the API fails the test.
func (p *process) api(method string, request any) map[string]any {
	p.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.Post("http://"+p.public+"/api/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var reply struct {
		Result map[string]any
		Error  any
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || reply.Error != nil {
		p.t.Fatalf("%s: %v %v", method, err, reply.Error)
	}
	return reply.Result
}

// TestServe runs a node as make run does and shuts it down.
func TestServe(t *testing.T) {
	p := startNode(t, "--demo")
	for _, url := range []string{"http://" + p.internal + "/health/ready", "http://" + p.internal + "/health/live", "http://" + p.public + "/"} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", url, resp.Status, body)
		}
	}
	path, _ := binary()
	for _, form := range []string{"none", "merge", "fossil"} { // tables do not support fossil
		out, err := exec.Command(path, "sub", "quotes:all", "--url", "http://"+p.public, "-n", "90", "-q", "--delta", form).Output()
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(out), `"symbol"`); lines != 90 {
			t.Errorf("sub --delta %s printed %d quotes, want 90:\n%s", form, lines, out)
		}
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, p.stderr)
	}
}

// TestProfileLocks: lock contention is profiled only on request.
func TestProfileLocks(t *testing.T) {
	for _, tt := range []struct {
		args     []string
		fraction string
		blocks   bool
	}{
		{args: []string{"--insecure"}, fraction: "sampling period=0\n"},
		{args: []string{"--insecure", "--profile-locks"}, fraction: "sampling period=10\n", blocks: true},
	} {
		p := startNode(t, tt.args...)
		page := func(name string) string {
			resp, err := http.Get("http://" + p.internal + "/debug/pprof/" + name + "?debug=1")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", name, resp.Status, err)
			}
			return string(text)
		}
		if got := page("mutex"); !strings.Contains(got, tt.fraction) {
			t.Errorf("%v: no %q in\n%s", tt.args, tt.fraction, got)
		}
		p.api("publish", map[string]any{"channel": "news", "data": 1}) // it waits for the broker
		if got := page("block"); strings.Contains(got, " @ 0x") != tt.blocks {
			t.Errorf("%v: waits are recorded or not:\n%s", tt.args, got)
		}
		p.kill()
	}
}
