package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// A limit on the address space (ulimit -v) that Go's runtime cannot work with is reported at the start.
func TestLittleAddressSpace(t *testing.T) {
	path, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `ulimit -v 1900000; exec "$0" serve --insecure --listen 127.0.0.1:0 --internal 127.0.0.1:0`, path)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "(ulimit -v)") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFullDisk: while the disk is full, publications are refused, and no acknowledged publication is lost. When there is room again, the node
// continues without a restart. The disk is a file system in memory that only the node sees.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	disk := t.TempDir()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, roomConfig, "1GiB"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := serveArgs(t, []string{"--insecure", "--config", file, "--data", filepath.Join(disk, "data")})
	script := `mount -t tmpfs -o size=24m sluice-test "$0" && exec "$@"`
	node := launch(t, exec.Command("unshare", append([]string{"--user", "--map-root-user", "--mount", "sh", "-c", script, disk, path}, args...)...))
	node.greeting()
	if node.internal == "" {
		t.Fatalf("the node did not start; mounting a file system needs user namespaces:\n%s", node.stderr)
	}
	seen := fmt.Sprintf("/proc/%d/root%s", node.cmd.Process.Pid, disk) // the disk as the node sees it
	ballast := filepath.Join(seen, "ballast")
	for i := range 10 {
		if err := node.row(fmt.Sprintf("early%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	watching := startClients(t, newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{"ticks:a": {count: 1}}))
	rows, refused := node.fill()
	for i := range 10 {
		rows[fmt.Sprintf("early%d", i)] = rowData(fmt.Sprintf("early%d", i))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "it goes on when there is room", func() bool {
		err := node.row(refused)
		if err != nil && !isBusy(err) && !isUnsure(err) {
			t.Error(err)
		}
		return err == nil
	})
	rows[refused] = rowData(refused)
	if err := node.try("publish", `{"channel":"ticks:a","data":1}`); err != nil {
		t.Error(err)
	}
	watching.awaitComplete()
	checkRows(t, node, rows)
	node.awaitReady()
}
