package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
)

// BuildNATS builds the NATS server, and returns its path and a function that removes it.
func BuildNATS(ctx context.Context) (binary string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	binary = filepath.Join(folder, "nats-server")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return binary, remove, nil
}

// NATS is a NATS server with JetStream, as a process of its own.
type NATS struct {
	Addr string // host and port

	cmd    *exec.Cmd
	folder string
}

// StartNATS starts a NATS server and waits until it serves. The kernel chooses its port.
func StartNATS(ctx context.Context, binary string) (*NATS, error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	n := &NATS{folder: folder}
	n.cmd = exec.Command(binary, "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", folder, "--jetstream", "--store_dir", filepath.Join(folder, "data"))
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if n.Addr, err = n.address(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// address returns where the server listens: it writes that to a file when it serves.
func (n *NATS) address(ctx context.Context) (string, error) {
	for range 1000 {
		names, err := filepath.Glob(filepath.Join(n.folder, "*.ports"))
		if err != nil {
			return "", err
		}
		if len(names) > 0 {
			var ports struct {
				NATS []string `json:"nats"`
			}
			text, err := os.ReadFile(names[0])
			if err == nil && json.Unmarshal(text, &ports) == nil && len(ports.NATS) > 0 {
				return strings.TrimPrefix(ports.NATS[0], "nats://"), nil
			}
		}
		if err := load.Pause(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", errors.New("the NATS server did not start")
}

// PID is the number of the process.
func (n *NATS) PID() int { return n.cmd.Process.Pid }

// Stop ends the server at once.
func (n *NATS) Stop() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	_ = os.RemoveAll(n.folder)
}
