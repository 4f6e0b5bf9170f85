//go:build proof

package session_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// proofSessions is how many there are. Their clients need as many descriptors, which one process is seldom given, so they live in
// another.
const proofSessions = 15_000

// crowdOf names the environment variable that makes TestProofCrowd the clients of a server.
const crowdOf = "SLUICE_CROWD_OF"

// TestProofShutdown shuts a server with 15,000 sessions down: go test -tags proof -run TestProofShutdown. It needs 15,100 descriptors,
// ulimit -n.
func TestProofShutdown(t *testing.T) {
	for name, engine := range map[string]session.Engine{"loop": session.EngineLoop, "goroutine": session.EngineGoroutine} {
		t.Run(name, func(t *testing.T) {
			m, addr := newMany(t, engine, limit)
			before, idle := runtime.NumGoroutine(), heap()
			clients := exec.Command(os.Args[0], "-test.run=^TestProofCrowd$")
			clients.Env = append(os.Environ(), crowdOf+"="+addr)
			clients.Stderr = os.Stderr
			out, err := clients.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := clients.Start(); err != nil {
				t.Fatal(err)
			}
			if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
				t.Errorf("the clients said %q, %v", said, err)
			}
			await(t, func() bool { return m.srv.Len() == proofSessions && m.srv.Stats().Opened == proofSessions })
			grown := runtime.NumGoroutine() - before
			if engine == session.EngineLoop && onLoops(m.srv) && grown > 20 {
				t.Errorf("%d more goroutines than before", grown)
			}
			t.Logf("%d sessions, %d more goroutines, %d bytes of heap a session", proofSessions, grown, (heap()-idle)/proofSessions)
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if err := m.shutdown(ctx, t, proofSessions); err != nil {
				t.Error(err)
			}
			t.Logf("shut down in %v", time.Since(began).Round(time.Millisecond))
			if err := clients.Wait(); err != nil {
				t.Errorf("clients: %v", err)
			}
		})
	}
}

// TestProofCrowd is the other process.
func TestProofCrowd(t *testing.T) {
	addr := os.Getenv(crowdOf)
	if addr == "" {
		return
	}
	clients, err := crowd("tcp", addr, proofSessions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		t.Fatal(err)
	}
	if err := leave(clients); err != nil {
		t.Error(err)
	}
}
