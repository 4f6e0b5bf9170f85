// Package node runs the command sluice as users do, as a process of its own.
package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Module is what the command sluice is in.
const Module = "github.com/sluice-push/sluice"

// Build returns the path of the command sluice, which is built unless there is a path already, and a function that removes what was built.
func Build(ctx context.Context, path string) (binary string, remove func(), err error) {
	if path != "" {
		binary, err = filepath.Abs(path)
		return binary, func() {}, err
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", Module).Output()
	if err != nil {
		return "", nil, fmt.Errorf("where is %s: %w", Module, err)
	}
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	binary = filepath.Join(folder, "sluice")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-o", binary, "./cmd/sluice").CombinedOutput()
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("build sluice: %w\n%s", err, out)
	}
	return binary, remove, nil
}

// Node is a process of sluice. Its methods are for one goroutine.
type Node struct {
	// Where it listens, as host and port. TCP is empty unless its configuration asks for that port.
	Public, Internal, TCP string

	cmd    *exec.Cmd
	folder string
	said   *tail
	ended  chan struct{} // closed when the process is gone
}

// Start starts sluice with a configuration, in YAML, and more flags, and waits until it is ready. The kernel chooses its ports, unless flags say them.
func Start(binary, config string, flags ...string) (*Node, error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	args := []string{"serve", "--config", file, "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0"}
	n := &Node{folder: folder, said: new(tail), ended: make(chan struct{})}
	n.cmd = exec.Command(binary, append(args, flags...)...)
	n.cmd.Stderr = n.said
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // the process that looks after it may be killed
	stdout, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	greeted := make(chan struct{})
	go func() {
		defer close(n.ended)
		n.listen(stdout)
		close(greeted)
		_, _ = io.Copy(io.Discard, stdout)
		_ = n.cmd.Wait()
	}()
	<-greeted
	if err := n.ready(); err != nil {
		n.Stop()
		return nil, fmt.Errorf("sluice did not start: %w\n%s", err, n.said)
	}
	return n, nil
}

// listen reads where the node listens.
func (n *Node) listen(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); n.Internal == "" && lines.Scan(); {
		field, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		rest = strings.TrimSpace(rest)
		switch field {
		case "websocket":
			_, rest, _ = strings.Cut(rest, "://") // ws, or wss
			n.Public = strings.TrimSuffix(rest, "/connection/websocket")
		case "tcp":
			n.TCP = rest
		case "health":
			n.Internal = strings.TrimSuffix(strings.TrimPrefix(rest, "http://"), "/health/ready")
		}
	}
}

// ready is an error if the node does not serve.
func (n *Node) ready() error {
	if n.Internal == "" {
		return errors.New("it does not say where it listens")
	}
	_, err := n.Get("/health/ready")
	return err
}

// PID is the number of the process.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Said returns the end of what the process has written to its standard error.
func (n *Node) Said() string { return n.said.String() }

// While returns a context that also ends when the process does. Its cause then says so, with the end of what the process has written. The caller calls
// cancel before Stop.
func (n *Node) While(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-n.ended:
			end(fmt.Errorf("the node ended: %v\n%s", n.cmd.ProcessState, n.Said()))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		end(nil)
		<-watched
	}
}

// Get returns a page of the internal port.
func (n *Node) Get(path string) ([]byte, error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + n.Internal + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return page, err
}

// Stop ends the node at once.
func (n *Node) Stop() {
	_ = n.cmd.Process.Kill()
	<-n.ended
	_ = os.RemoveAll(n.folder)
}

// Terminate tells the node to end in order, and waits until it has.
func (n *Node) Terminate() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-n.ended
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the node ended with code %d\n%s", code, n.said)
	}
	return os.RemoveAll(n.folder)
}
