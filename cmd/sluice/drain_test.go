//go:build unix

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// startDraining starts a node with settings for its end.
func startDraining(t *testing.T, delay, spread string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "shutdown: {delay: %s, spread: %s}\n", delay, spread), 0o600); err != nil {
		t.Fatal(err)
	}
	return startNode(t, "--insecure", "--config", file)
}

// connected connects a client to a node.
func connected(t *testing.T, p *process) *clientconn.Conn {
	t.Helper()
	conn, err := clientconn.Dial(testwait.Context(t), &clientconn.Options{
		URL: "http://" + p.public, Transport: "websocket", Protocol: "json", Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var r protocol.Reply
	if err := conn.Receive(testwait.Context(t), &r); err != nil {
		t.Fatal(err)
	}
	return conn
}

// wantShutdown fails the test unless the server ends a connection with the code of a shutdown.
func wantShutdown(t *testing.T, conn *clientconn.Conn) {
	t.Helper()
	var r protocol.Reply
	if err := conn.Receive(testwait.Context(t), &r); err == nil || !strings.Contains(err.Error(), "3001") {
		t.Errorf("%+v, %v: want the end with code 3001", r, err)
	}
}

// signal sends SIGTERM.
func (p *process) signal() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// TestDrainDelay: a node that has got SIGTERM goes on for a while, but is not ready. Another signal ends that.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	p := startDraining(t, "1h", "1h")
	before := connected(t, p)
	p.signal()
	testwait.True(t, "the node is not ready", func() bool {
		return answers("http://"+p.internal+"/health/ready", http.StatusServiceUnavailable, "about to shut down")
	})
	after := connected(t, p) // clients that a balancer still sends are served
	for _, conn := range []*clientconn.Conn{before, after} {
		exchange(t, conn, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}}, nil)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantShutdown(t, before)
	wantShutdown(t, after)
	if !strings.Contains(p.stderr.String(), "a signal ends the draining") {
		t.Error("the log does not say that another signal came")
	}
}

// TestDrainSpread: clients of a node that ends are asked one after the other to connect again, and the node ends when all were asked.
func TestDrainSpread(t *testing.T) {
	t.Parallel()
	p := startDraining(t, "0s", "300ms")
	var all []*clientconn.Conn
	for range 10 {
		all = append(all, connected(t, p))
	}
	p.signal()
	testwait.Receive(t, p.exited)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, conn := range all {
		wantShutdown(t, conn)
	}
	if said := p.stderr.String(); !strings.Contains(said, "draining") || strings.Contains(said, "a signal") {
		t.Error("the log does not tell of the draining, or of a signal that did not come")
	}
}
