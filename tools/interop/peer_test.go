package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is the time limit of each scenario.
const patience = time.Minute

// task is a request to a peer.
type task struct {
	URL     string    `json:"url"` // empty: act as the server
	Deflate *deflate  `json:"deflate"`
	Ping    string    `json:"ping"`
	Send    []message `json:"send"`
	Receive int       `json:"receive"`
	Close   *closing  `json:"close"`
}

// taskOf returns the peer's task in a scenario.
func taskOf(s scenario, url string) task {
	o := task{URL: url, Deflate: s.theirs.deflate, Ping: s.theirs.ping, Send: s.theirs.send, Close: s.theirs.close}
	if o.Send == nil {
		o.Send = []message{}
	}
	if !s.closesEarly {
		o.Receive = len(s.ours.send)
	}
	return o
}

// report is the answer of a peer.
type report struct {
	Agreed   string    // extensions of the response
	Received []arrival // complete messages
	Pong     string
	Code     uint16 // of the close frame that the peer received, or 1006
	Reason   string
	Clean    bool // the closing handshake was completed
	Errors   []string
}

// client is a peer that connects.
type client interface {
	// connect carries out a task with a URL, and returns when the connection has ended.
	connect(t *testing.T, o task) report
}

// peer is another implementation of WebSocket.
type peer struct {
	name   string
	can    ability
	client bool
	server bool
	// start starts the peer until the end of the test.
	start func(t *testing.T) client
}

// process is a peer that runs as a program.
type process struct {
	stdin  io.Writer
	lines  *bufio.Scanner
	stderr *buffer
	kill   func()
}

// buffer collects the output of a program.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// program returns a function that starts a program in a folder of testdata. If the file installed does not exist, the test fails. The
// program ends when its standard input is closed.
func program(folder, installed string, command ...string) func(*testing.T) client {
	return func(t *testing.T) client {
		t.Helper()
		dir, err := filepath.Abs(filepath.Join("testdata", folder))
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsAbs(installed) {
			installed = filepath.Join(dir, installed)
		}
		if _, err := os.Stat(installed); err != nil {
			t.Fatalf("a peer is not installed: run make deps (%v)", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = dir
		stderr := &buffer{}
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
			t.Fatalf("start %s: %v; run make interop", command[0], err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				cancel() // the program may hang
			}
			_ = stdin.Close()
			defer time.AfterFunc(patience, cancel).Stop()
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v\n%s", command[0], err, stderr)
			}
			cancel()
		})
		return &process{stdin, bufio.NewScanner(stdout), stderr, cancel}
	}
}

// write sends a task.
func (p *process) write(t *testing.T, o task) {
	t.Helper()
	if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
		t.Fatalf("the peer has ended: %v\n%s", err, p.stderr)
	}
}

// read reads the answer.
func (p *process) read(t *testing.T, answer any) {
	t.Helper()
	timer := time.AfterFunc(patience, p.kill)
	defer timer.Stop()
	if !p.lines.Scan() {
		t.Fatalf("the peer has ended, or was ended after %v\n%s", patience, p.stderr)
	}
	if err := json.Unmarshal(p.lines.Bytes(), answer); err != nil {
		t.Fatalf("%v: %s\n%s", err, p.lines.Bytes(), p.stderr)
	}
}

// connect implements client.
func (p *process) connect(t *testing.T, o task) report {
	t.Helper()
	p.write(t, o)
	var r report
	p.read(t, &r)
	return r
}

// listen makes the peer a server for one connection and returns its port.
func (p *process) listen(t *testing.T, o task) int {
	t.Helper()
	p.write(t, o)
	var listening struct{ Port int }
	p.read(t, &listening)
	return listening.Port
}
