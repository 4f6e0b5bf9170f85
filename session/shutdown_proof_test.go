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

// proofSessions is the number of sessions. Their clients need as many descriptors, more than one process may usually have, so they run in
// another process.
const proofSessions = 15_000

// clientsOf is the environment variable that makes TestProofClients the clients of the server at that address.
const clientsOf = "SLUICE_CLIENTS_OF"

// TestProofShutdown shuts down a server with 15,000 sessions: go test -tags proof -run TestProofShutdown. It needs 15,100 descriptors (ulimit
// -n).
func TestProofShutdown(t *testing.T) {
	for name, engine := range map[string]session.Engine{"loop": session.EngineLoop, "goroutine": session.EngineGoroutine} {
		t.Run(name, func(t *testing.T) {
			m, addr := newManyServer(t, engine, limit)
			before, idle := runtime.NumGoroutine(), heap()
			clients := exec.Command(os.Args[0], "-test.run=^TestProofClients$")
			clients.Env = append(os.Environ(), clientsOf+"="+addr)
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

// TestProofClients is the process with the clients.
func TestProofClients(t *testing.T) {
	addr := os.Getenv(clientsOf)
	if addr == "" {
		return
	}
	clients, err := dialClients("tcp", addr, proofSessions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		t.Fatal(err)
	}
	if err := closeClients(clients); err != nil {
		t.Error(err)
	}
}
