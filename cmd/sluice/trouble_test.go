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

// troubleTime bounds each thing that a test of trouble waits for. It is long: on a busy machine it is not what is tested.
const troubleTime = time.Minute

// busyCode is what the HTTP API answers when the broker takes nothing for now: nothing was stored, and it may be tried again.
const busyCode = 111

// refusal is an error of the HTTP API.
type refusal struct {
	Code    int
	Message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (code %d)", r.Message, r.Code) }

// try calls a method of the HTTP API with a body and returns its error, if it answers one.
func (p *process) try(method, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), troubleTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.public+"/api/"+method, strings.NewReader(body))
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

// isBusy reports whether the API said that nothing was stored and it may be tried again.
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

func (p *process) awaitReady() {
	p.t.Helper()
	testwait.True(p.t, "the node is ready", func() bool { return answers("http://"+p.internal+"/health/ready", http.StatusOK, "ready") })
}

// freePort returns an address at which nobody listens, for something that begins to listen later. On Linux it is not one at which
// connections to elsewhere could come to be meanwhile.
func freePort(t testing.TB) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.0.0.77"
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// outside is a NATS server that is a process of its own.
type outside struct {
	t       *testing.T
	address string
	store   string
	cmd     *exec.Cmd
}

// start starts the server. Whether it is ready, a node that uses it has to find out.
func (o *outside) start() {
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

// kill ends the server at once.
func (o *outside) kill() {
	if o.cmd != nil {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait() // that it was killed is no news
		o.cmd = nil
	}
}

// TestDataFolderRefused: with a data folder that cannot be used the node ends, and says which one that is and what to do.
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
		{"below a file", filepath.Join(file, "data"), "cannot be made"},
		{"a file", file, "cannot be made"},
		{"other things in it", folder, "is not empty, and is not a data folder"},
		{"in use", used, "is in use by another process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), troubleTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, path, serveArgs(t, []string{"--insecure", "--data", tt.data})...)
			cmd.Env = environ()
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the exit code says it
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

// outsideConfig is of a node with an external broker.
func outsideConfig(address string) string {
	return fmt.Sprintf(`
broker: {kind: nats, url: "nats://%s"}
ping: {interval: 60s, timeout: 50s}
namespaces:
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h}}
`, address)
}

// launchWaiting starts a node whose broker is not there yet, and returns its addresses.
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

// greeting waits until a node that was launched says where it listens.
func (p *process) greeting() {
	p.t.Helper()
	late := time.NewTimer(troubleTime)
	defer late.Stop()
	select {
	case <-p.greeted:
	case <-late.C:
		p.t.Fatal("the node does not say that it runs")
	}
}

// TestWaitsForBroker: a node whose external broker is not there is alive and not ready, says why, and begins to serve when the broker
// has come, without being told.
func TestWaitsForBroker(t *testing.T) {
	t.Parallel()
	server := &outside{t: t, address: freePort(t), store: t.TempDir()}
	node, public, internal := launchWaiting(t, outsideConfig(server.address))
	if !answers("http://"+internal+"/health/ready", http.StatusServiceUnavailable, "waiting for the broker") {
		t.Error("it does not say that it waits")
	}
	for _, path := range []string{"/connection/websocket", "/api/info"} {
		if !answers("http://"+public+path, http.StatusServiceUnavailable, "waiting for the broker") {
			t.Errorf("%s does not say that it waits", path)
		}
	}
	testwait.True(t, "it says whom it cannot reach", func() bool {
		log := node.stderr.String()
		return strings.Contains(log, "the broker cannot be reached; trying again") && strings.Contains(log, server.address)
	})
	server.start()
	node.greeting()
	node.awaitReady()
	watching := startCrowd(t, newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{"ticks:a": {count: 3}}))
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

// TestEndsWhileWaiting: a node that waits for its broker ends when it is told to, and that is no failure.
func TestEndsWhileWaiting(t *testing.T) {
	node, _, _ := launchWaiting(t, outsideConfig(freePort(t)))
	if code := node.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestBrokerLost: while an external broker is gone, publications are refused; when it is back with what it had, everything goes on: who
// publishes until each is acknowledged has each delivered exactly once, to a subscriber that was there all the time.
func TestBrokerLost(t *testing.T) {
	t.Parallel()
	const publishers, each, losses, refusals = 4, 500, 2, 10
	server := &outside{t: t, address: freePort(t), store: t.TempDir()}
	server.start()
	node := startNodeWith(t, outsideConfig(server.address))
	client := newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{"ticks:a": {count: publishers*each + 1}})
	seen := map[string]int{}
	client.book.accounts["ticks:a"].taken = func(data []byte) { seen[string(data)]++ }
	watching := startCrowd(t, client)

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
			case !isUnsure(err): // the answer may be lost with the broker, and then the key helps
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
