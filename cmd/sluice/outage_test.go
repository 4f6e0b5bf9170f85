package main_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// outages says when a node was away, so that its clients know that they may lose their connections, and when to come back. The
// methods of nil say that it never was.
type outages struct {
	mu    sync.Mutex // guards what follows
	count int
	up    chan struct{} // closed while the node is there
}

func newOutages() *outages {
	o := &outages{up: make(chan struct{})}
	close(o.up)
	return o
}

// begin says that the node goes away, end that it is back.
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

// await returns when the node is there or ctx ends, and how many outages there were.
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

// service is a node that is killed at times and comes back with the same address and the same data.
type service struct {
	t       *testing.T
	path    string // of the program
	args    []string
	outages *outages
	*process
	used time.Duration // CPU time of its earlier lives
}

// startService starts a node with a configuration.
func startService(t *testing.T, path, config string) *service {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, path: path, outages: newOutages()}
	s.args = []string{"--insecure", "--config", file, "--data", filepath.Join(folder, "data")}
	s.process = startProgram(t, path, s.args...)
	return s
}

// crash kills the node as kill -9 does, and starts it again.
func (s *service) crash() {
	s.t.Helper()
	s.used += s.process.cpu()
	s.outages.begin()
	s.kill()
	s.process = startProgram(s.t, s.path, append([]string{"--listen", s.public}, s.args...)...)
	s.outages.end()
}

// cpu returns how much CPU time the node has used in all its lives.
func (s *service) cpu() time.Duration { return s.used + s.process.cpu() }
