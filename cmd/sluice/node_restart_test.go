package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// outages records when a node is down. Its clients then know that they may lose their connections, and when to reconnect. For a nil outages the
// node is never down.
type outages struct {
	mu    sync.Mutex // guards the fields below
	count int
	up    chan struct{} // closed while the node is up
}

func newOutages() *outages {
	o := &outages{up: make(chan struct{})}
	close(o.up)
	return o
}

// begin says that the node goes down, and end that it is up again.
func (o *outages) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	o.up = make(chan struct{})
}

func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.up)
}

// await waits until the node is up or ctx ends. It returns how many outages there were.
func (o *outages) await(ctx context.Context) int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	up := o.up
	o.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
	}
	return o.number()
}

// number returns how many outages have begun.
func (o *outages) number() int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// restartableNode is a node that can be killed and started again with the same address and data.
type restartableNode struct {
	t       *testing.T
	path    string // of the program
	args    []string
	outages *outages
	*process
	used time.Duration // CPU time of earlier processes
}

// startRestartable starts a node with a configuration. It has a port for TCP, which it has again when it is started again.
func startRestartable(t *testing.T, path, config string) *restartableNode {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "sluice.yaml")
	config += fmt.Sprintf("tcp: {listen: %q}\n", freePort(t))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &restartableNode{t: t, path: path, outages: newOutages()}
	s.args = []string{"--insecure", "--config", file, "--data", filepath.Join(folder, "data")}
	s.process = startProgram(t, path, s.args...)
	return s
}

// crash kills the node as kill -9 does, and starts it again.
func (s *restartableNode) crash() {
	s.t.Helper()
	s.used += s.process.cpu()
	s.outages.begin()
	s.kill()
	s.process = startProgram(s.t, s.path, append([]string{"--listen", s.public}, s.args...)...)
	s.outages.end()
}

// cpu returns the CPU time of all processes of the node.
func (s *restartableNode) cpu() time.Duration { return s.used + s.process.cpu() }
