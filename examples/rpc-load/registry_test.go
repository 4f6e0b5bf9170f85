//go:build unix

package main_test

import (
	"bytes"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

// freePort returns an address without a listener, for a server that starts later. On Linux it is an address that no outgoing connection has as its
// source, so that none can take the port meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.0.0.79"
	}
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// startEtcd starts etcd, which is killed at the end of the test, and returns the URL of a registry in it.
func startEtcd(t *testing.T) string {
	t.Helper()
	client, peer := freePort(t), "http://"+freePort(t)
	cmd := exec.Command("etcd", "--data-dir", t.TempDir(), "--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("start etcd, which make deps installs: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("etcd said:\n%s", &said)
		}
	})
	return "etcd://" + client + "/test"
}

// startRegistered starts a server, and waits until the registry has it.
func startRegistered(t *testing.T, registry string) *proctest.Process {
	t.Helper()
	p := server.Start(t, "-listen", "127.0.0.1:0", "-registry", registry)
	p.Line("registered as ")
	return p
}

// While servers come, end in order and are killed, every call is answered: Echo may be made again.
func TestRegistry(t *testing.T) {
	registry := startEtcd(t)
	first, second := startRegistered(t, registry), startRegistered(t, registry)
	p := program.Start(t, "-registry", registry, "-calls", "0", "-callers", "20", "-interval", "20ms")
	p.Line("calls/s")
	if said := first.End(syscall.SIGTERM); !strings.Contains(said, "calls, 0 of them refused or failed") {
		t.Errorf("the server that ended in order said\n%s", said)
	}
	p.Line("calls/s")
	third := startRegistered(t, registry)
	p.Line("calls/s")
	second.Signal(syscall.SIGKILL)
	for range 100 { // more lines than may have been printed before
		p.Line("calls/s")
	}
	if said := p.End(syscall.SIGTERM); !strings.Contains(said, "every call was answered with its own text") {
		t.Errorf("the load said\n%s", said)
	}
	if said := third.End(syscall.SIGTERM); strings.Contains(said, ": 0 calls") {
		t.Errorf("the server that came later said\n%s", said)
	}
}

// A registry that cannot be meant is refused.
func TestRegistryMistakes(t *testing.T) {
	for registry, want := range map[string]string{
		"127.0.0.1:2379":       "is no registry",
		"consul://127.0.0.1:1": "not consul",
		"etcd://localhost":     "missing port",
		"zk://":                "is no registry",
	} {
		for _, p := range []*proctest.Program{program, server} {
			if status, _, stderr := p.Start(t, "-registry", registry).Exit(); status != 1 || !strings.Contains(stderr, want) {
				t.Errorf("%s: status %d, and not %q but\n%s", registry, status, want, stderr)
			}
		}
	}
	status, _, stderr := server.Start(t, "-listen", "0.0.0.0:0", "-registry", "etcd://127.0.0.1:1/x").Exit()
	if status != 1 || !strings.Contains(stderr, "-advertise") {
		t.Errorf("a server that listens everywhere: status %d\n%s", status, stderr)
	}
}
