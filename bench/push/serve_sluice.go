package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// ourModule is what the command sluice is in.
const ourModule = "github.com/sluice-push/sluice"

// build returns the path of the command sluice, which is built unless there is a path already, and a function that removes what was built.
func build(ctx context.Context, path string) (binary string, remove func(), err error) {
	if path != "" {
		binary, err = filepath.Abs(path)
		return binary, func() {}, err
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", ourModule).Output()
	if err != nil {
		return "", nil, fmt.Errorf("where is %s: %w", ourModule, err)
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

// config is of a node to which anonymous clients may come, subscribe and publish. Presence is off: no other server here has it.
const config = `
broker: {kind: %s}
auth: {anonymous: true}
limits: {commands_per_session: 0, commands_per_address: 0}
namespaces:
  - {name: ticks, history: {%s}, allow: {subscribe: [anonymous], publish: [anonymous], history: [], presence: []}}
`

// What is kept of a channel: as much as without a word about it, and so much that it is all there after half a minute.
const (
	usualHistory = "size: 100, age: 5m"
	shortHistory = "size: 100, age: 30s"
)

// node is a process of sluice. Its methods are for one goroutine.
type node struct {
	cmd              *exec.Cmd
	folder           string
	public, internal string
	said             *tail
	ended            chan struct{} // closed when the process is gone
	looking          int64         // nanoseconds of CPU that it took to look at it
}

// startNode starts sluice with a broker, a history and more flags, and waits until it is ready.
func startNode(binary, broker, history string, flags ...string) (*node, error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, broker, history), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	args := append([]string{"serve", "--config", file, "--data", filepath.Join(folder, "data")}, flags...)
	n := &node{folder: folder, said: new(tail), ended: make(chan struct{})}
	n.cmd = exec.Command(binary, append(args, "--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0")...)
	n.cmd.Stderr = n.said
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // who looks after it may be killed
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
		n.stop()
		return nil, fmt.Errorf("sluice did not start: %w\n%s", err, n.said)
	}
	return n, nil
}

// listen reads where the node listens.
func (n *node) listen(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); n.internal == "" && lines.Scan(); {
		field, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		rest = strings.TrimSpace(rest)
		switch field {
		case "websocket":
			n.public = strings.TrimSuffix(strings.TrimPrefix(rest, "ws://"), "/connection/websocket")
		case "health":
			n.internal = strings.TrimSuffix(strings.TrimPrefix(rest, "http://"), "/health/ready")
		}
	}
}

// ready is an error if the node does not serve.
func (n *node) ready() error {
	if n.internal == "" {
		return errors.New("it does not say where it listens")
	}
	_, err := n.get("/health/ready")
	return err
}

// get returns a page of the internal port.
func (n *node) get(path string) ([]byte, error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + n.internal + path)
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

// stop ends the node at once.
func (n *node) stop() {
	_ = n.cmd.Process.Kill()
	<-n.ended
	_ = os.RemoveAll(n.folder)
}

// cpu returns how many nanoseconds of CPU the process has used, threads that ended included.
func (n *node) cpu() (int64, error) {
	// The clock of another process, whose number the kernel makes of the process's: clock_getcpuclockid(3).
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^n.cmd.Process.Pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("the CPU time of sluice: %w\n%s", err, n.said)
	}
	return t.Nano(), nil
}

// status answers a command of the bench. What it costs the node to be looked at does not count.
func (n *node) status(command string) (server.Status, error) {
	before, err := n.cpu()
	if err != nil || command == "sample" {
		return server.Status{CPU: before - n.looking}, err
	}
	times, path := 1, "/debug/pprof/heap?debug=1"
	if command == "gc" {
		times, path = 3, path+"&gc=1"
	}
	var page []byte
	for range times {
		if page, err = n.get(path); err != nil {
			return server.Status{}, err
		}
	}
	after, err := n.cpu()
	if err != nil {
		return server.Status{}, err
	}
	s := server.Status{CPU: before - n.looking}
	n.looking += after - before
	var mallocs, idle, released int64
	for _, f := range []struct {
		name  string
		value *int64
	}{{"Mallocs", &mallocs}, {"HeapIdle", &idle}, {"HeapReleased", &released}} {
		if *f.value, err = figure(page, f.name); err != nil {
			return s, err
		}
	}
	s.Mallocs, s.Unused = uint64(mallocs), idle-released
	return s, nil
}

// figure returns one of runtime.MemStats from the page of the heap's profile.
func figure(page []byte, name string) (int64, error) {
	_, rest, found := bytes.Cut(page, []byte("\n# "+name+" = "))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	if !found {
		return 0, fmt.Errorf("the profile of the heap does not say %s", name)
	}
	return strconv.ParseInt(string(value), 10, 64)
}

// startSluice starts sluice for the bench. If it is patient it does not cut clients that neither read nor answer,
// and soon keeps as much as it ever will.
func startSluice(binary, broker string, patient bool) (*server.Served, error) {
	history := usualHistory
	if patient {
		history = shortHistory
		// The node inherits it.
		if err := errors.Join(os.Setenv("SLUICE_LIMITS_WRITE_TIMEOUT", "1h"), os.Setenv("SLUICE_PING_INTERVAL", "0s")); err != nil {
			return nil, err
		}
	}
	n, err := startNode(binary, broker, history)
	if err != nil {
		return nil, err
	}
	return &server.Served{Addr: n.public, PID: n.cmd.Process.Pid, Status: n.status, Close: n.stop}, nil
}
