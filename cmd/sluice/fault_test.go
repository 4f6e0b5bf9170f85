package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// faultTime is the time limit of each wait in these tests. It is long, because a busy machine must not fail them.
const faultTime = time.Minute

// busyCode is the error code of the HTTP API while the broker accepts nothing. Nothing was stored, and the caller may try again.
const busyCode = 111

// refusal is an error of the HTTP API.
type refusal struct {
	Code    int
	Message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (code %d)", r.Message, r.Code) }

// try calls a method of the HTTP API and returns the error in its answer.
func (p *process) try(method, body string) error { return tryAt(p.public, method, body) }

// tryAt calls a method of the HTTP API of the node at an address, and returns the error in its answer.
func tryAt(address, method, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/"+method, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Error *refusal }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// isBusy reports whether the API has stored nothing and the caller may try again.
func isBusy(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code == busyCode && strings.Contains(r.Message, "try again later")
}

// answers reports whether a GET is answered with a status and a text.
func answers(url string, status int, text string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == status && strings.Contains(string(body), text)
}

// send sends a request to a node and returns the answer, whose body is read.
func send(t testing.TB, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(t), method, url, strings.NewReader(body))
	must(t, err)
	if header != nil {
		r.Header, r.Host = header, header.Get("Host")
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(text)
}

func (p *process) awaitReady() {
	p.t.Helper()
	testwait.True(p.t, "the node is ready", func() bool { return answers("http://"+p.internal+"/health/ready", http.StatusOK, "ready") })
}

// freePort returns an address without a listener, for a server that starts later. No other call returns the same. On Linux it is an address that no
// outgoing connection gets as its source, so that none can take the port meanwhile.
func freePort(t testing.TB) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.0.0.77"
	}
	for {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		must(t, l.Close())
		if _, isTaken := freePorts.LoadOrStore(address, true); !isTaken {
			return address
		}
	}
}

// freePorts has the results of freePort.
var freePorts sync.Map

// natsProcess is a NATS server in a process of its own.
type natsProcess struct {
	t       *testing.T
	address string
	store   string
	cmd     *exec.Cmd
}

// start starts the server and does not wait until it is ready.
func (o *natsProcess) start() {
	o.t.Helper()
	path, err := natsServer()
	if err != nil {
		o.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(o.address)
	if err != nil {
		o.t.Fatal(err)
	}
	o.cmd = exec.Command(path, "--addr", host, "--port", port, "--jetstream", "--store_dir", o.store)
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(o.kill)
}

// kill kills the server.
func (o *natsProcess) kill() {
	if o.cmd != nil {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait() // the error only says that the process was killed
		o.cmd = nil
	}
}

// TestDataFolderRefused: a node with an unusable data folder ends, names the folder, and says what to do.
func TestDataFolderRefused(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	used := t.TempDir()
	first := startNode(t, "--insecure", "--data", used)
	for _, tt := range []struct{ name, data, want string }{
		{"below a file", filepath.Join(file, "data"), "cannot be created"},
		{"a file", file, "cannot be created"},
		{"other things in it", folder, "is neither empty nor a data folder"},
		{"in use", used, "is in use by another process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), faultTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, path, serveArgs(t, []string{"--insecure", "--data", tt.data})...)
			cmd.Env = environ()
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the exit code is checked below
			if code := cmd.ProcessState.ExitCode(); code != 1 || stdout.Len() > 0 {
				t.Errorf("exit code %d, output %q", code, &stdout)
			}
			for _, part := range []string{tt.want, tt.data, "--data"} {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("it does not say %q: %s", part, &stderr)
				}
			}
			if lines := strings.Count(stderr.String(), "\n"); lines != 1 {
				t.Errorf("it says it in %d lines: %s", lines, &stderr)
			}
		})
	}
	first.awaitReady()
}

// externalConfig returns the configuration of a node with an external broker.
func externalConfig(address string) string {
	return fmt.Sprintf(`
broker: {kind: nats, nats: {url: "nats://%s"}}
ping: {interval: 60s, timeout: 50s}
namespaces:
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h}}
`, address)
}

// launchWaiting starts a node whose broker is not running yet, and returns its addresses.
func launchWaiting(t *testing.T, config string) (p *process, public, internal string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	public, internal = freePort(t), freePort(t)
	p = launch(t, exec.Command(path, serveArgs(t, []string{"--insecure", "--config", file, "--listen", public, "--internal", internal})...))
	testwait.True(t, "the node is alive", func() bool { return answers("http://"+internal+"/health/live", http.StatusOK, "live") })
	return p, public, internal
}

// greeting waits until a launched node has printed its addresses.
func (p *process) greeting() {
	p.t.Helper()
	late := time.NewTimer(faultTime)
	defer late.Stop()
	select {
	case <-p.greeted:
	case <-late.C:
		p.t.Fatal("the node does not say that it runs")
	}
}

// TestWaitsForBroker: while its external broker is not running, a node is alive but not ready, and says why. When the broker runs, the node
// serves clients.
func TestWaitsForBroker(t *testing.T) {
	t.Parallel()
	server := &natsProcess{t: t, address: freePort(t), store: t.TempDir()}
	node, public, internal := launchWaiting(t, externalConfig(server.address))
	if !answers("http://"+internal+"/health/ready", http.StatusServiceUnavailable, "waiting for the broker") {
		t.Error("it does not say that it waits")
	}
	for _, path := range []string{"/connection/websocket", "/api/info"} {
		if !answers("http://"+public+path, http.StatusServiceUnavailable, "waiting for the broker") {
			t.Errorf("%s does not say that it waits", path)
		}
		if res, _ := send(t, http.MethodGet, "http://"+public+path, "", nil); res.Header.Get("Retry-After") != "1" {
			t.Errorf("%s does not say when to come again: %v", path, res.Header)
		}
	}
	if res, body := send(t, http.MethodPost, "http://"+internal+"/drain", "", nil); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") != "1" || !strings.Contains(body, "SIGTERM") {
		t.Errorf("a drain is answered %s %v: %s", res.Status, res.Header, body)
	}
	testwait.True(t, "it says whom it cannot reach", func() bool {
		log := node.stderr.String()
		return strings.Contains(log, "broker unreachable, retrying") && strings.Contains(log, server.address)
	})
	server.start()
	node.greeting()
	node.awaitReady()
	watching := startClients(t, newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{"ticks:a": {count: 3}}))
	for i := range 3 {
		if err := node.try("publish", fmt.Sprintf(`{"channel":"ticks:a","data":%d}`, i)); err != nil {
			t.Error(err)
		}
	}
	watching.awaitComplete()
	if code := node.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEndsWhileWaiting: a node that waits for its broker ends when told to, with a successful exit code.
func TestEndsWhileWaiting(t *testing.T) {
	node, _, _ := launchWaiting(t, externalConfig(freePort(t)))
	if code := node.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestBrokerLost: while an external broker is down, publications are refused. When it is up again with its data, everything continues. A
// publisher that repeats each publication until it is acknowledged gets each delivered exactly once, to a subscriber that was connected all the
// time.
func TestBrokerLost(t *testing.T) {
	t.Parallel()
	const publishers, each, losses, refusals = 4, 500, 2, 10
	server := &natsProcess{t: t, address: freePort(t), store: t.TempDir()}
	server.start()
	node := startNodeWith(t, externalConfig(server.address))
	client := newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{"ticks:a": {count: publishers*each + 1}})
	seen := map[string]int{}
	client.checker.accounts["ticks:a"].taken = func(data []byte) { seen[string(data)]++ }
	watching := startClients(t, client)

	var acked, refused atomic.Int64
	publish := func(id string) {
		body := fmt.Sprintf(`{"channel":"ticks:a","data":%q,"idempotency_key":%q}`, id, id)
		testwait.True(t, id+" is acknowledged", func() bool {
			err := node.try("publish", body)
			switch {
			case err == nil:
				acked.Add(1)
				return true
			case isBusy(err):
				refused.Add(1)
			case !isUnsure(err): // the answer may be lost with the broker; the idempotency key then prevents a duplicate
				t.Errorf("%s: %v", id, err)
				return true
			}
			return false
		})
	}
	var publishing sync.WaitGroup
	for publisher := range publishers {
		publishing.Go(func() {
			for i := range each {
				publish(fmt.Sprintf("%d/%d", publisher, i))
			}
		})
	}
	for loss := range int64(losses) {
		testwait.True(t, "publications are acknowledged", func() bool { return acked.Load() >= (loss+1)*publishers*each/4 })
		server.kill()
		before := refused.Load()
		testwait.True(t, "publications are refused", func() bool { return refused.Load() >= before+refusals })
		server.start()
	}
	testwait.Return(t, publishing.Wait)
	publish("the last")
	watching.awaitComplete()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if len(seen) != publishers*each+1 || client.cuts > 0 {
		t.Errorf("%d were delivered, to a client that was cut %d times", len(seen), client.cuts)
	}
	node.awaitReady()
	t.Logf("%d publications were refused meanwhile", refused.Load())
}
