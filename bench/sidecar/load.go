package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/rpc"
)

// build builds the example sidecar.
func build(ctx context.Context, binary string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", node.Module).Output()
	if err != nil {
		return "", fmt.Errorf("where is %s: %w", node.Module, err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "examples")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", folder, "-o", binary, "./sidecar").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sidecar: %w\n%s", err, out)
	}
	return binary, nil
}

// process is a server or a proxy.
type process struct {
	cmd     *exec.Cmd
	address string // as -to of the sidecar has it
	network string
}

// begin starts a process and waits until it says where it listens.
func begin(ctx context.Context, network, binary string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, binary, args...), network: network}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%s said %q, %w", binary, line, err), p.end())
	}
	if p.address = address; network == "unix" {
		p.address = "unix:" + address
	}
	return p, nil
}

// end ends the process and waits for it.
func (p *process) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.cmd.Wait()
}

// bench measures proxies on one route.
type bench struct {
	binary, folder string
	route          [2]string
	length         time.Duration
	samples        map[key][]sample
	sockets        int // Unix sockets so far
}

// at returns an address to listen on.
func (b *bench) at(network string) string {
	if network == "tcp" {
		return "127.0.0.1:0"
	}
	b.sockets++
	return fmt.Sprintf("unix:%s/%s-%d", b.folder, b.route[0], b.sockets)
}

// measure takes one sample.
func (b *bench) measure(ctx context.Context, c cell, proxy string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := begin(ctx, b.route[1], self, "serve", "-listen", b.at(b.route[1]))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	target, pids := server, []int{os.Getpid(), server.cmd.Process.Pid}
	if proxy != "direct" {
		binary, args := self, []string{"serve", "-proxy", proxy}
		if proxy == "sidecar" {
			binary, args = b.binary, []string{"-interval", "0"}
		}
		args = append(args, "-listen", b.at(b.route[0]), "-to", server.address)
		if target, err = begin(ctx, b.route[0], binary, args...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, target.end()) }()
		pids = append(pids, target.cmd.Process.Pid)
	}
	s, err := b.load(ctx, c, target, pids)
	if err == nil {
		b.samples[key{c.name, proxy}] = append(b.samples[key{c.name, proxy}], s)
	}
	return err
}

// load makes calls for the length of a sample, after a tenth of it that does not count.
func (b *bench) load(ctx context.Context, c cell, target *process, pids []int) (s sample, err error) {
	var conns []*rpc.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
			<-conn.Done()
		}
	}()
	for range c.connections {
		conn, err := rpc.Dial(ctx, target.network, strings.TrimPrefix(target.address, "unix:"), &rpc.ConnOptions{Form: rpc.Raw})
		if err != nil {
			return s, err
		}
		conns = append(conns, conn)
	}
	var done atomic.Bool
	var calls atomic.Int64
	var callers sync.WaitGroup
	failed := make(chan error, c.connections*c.inFlight)
	for i := range c.connections * c.inFlight {
		callers.Go(func() {
			r, body := &rpc.Request{Method: "Echo"}, make([]byte, c.size)
			for !done.Load() {
				if err := conns[i%len(conns)].Do(ctx, r, body, nil); err != nil || len(r.Reply()) != c.size {
					failed <- fmt.Errorf("a call of %d bytes: %d bytes, %w", c.size, len(r.Reply()), err)
					return
				}
				calls.Add(1)
			}
		})
	}
	var before, after reading
	err = pause(ctx, b.length/10)
	if err == nil {
		before, err = read(&calls, pids)
	}
	if err == nil {
		err = pause(ctx, b.length)
	}
	if err == nil {
		after, err = read(&calls, pids)
	}
	done.Store(true)
	callers.Wait()
	close(failed)
	if first, ok := <-failed; ok {
		err = errors.Join(err, first)
	}
	if err != nil {
		return s, err
	}
	n := float64(after.calls - before.calls)
	s.calls = n / after.at.Sub(before.at).Seconds()
	for i := range pids {
		used := float64(after.cpu[i]-before.cpu[i]) / 1e3 / n // nanoseconds of one call are thousandths of seconds of a million
		s.all += used
		if i == 2 {
			s.proxy = used
		}
	}
	return s, nil
}

// reading is what was done until a moment.
type reading struct {
	at    time.Time
	calls int64
	cpu   []int64 // of each process
}

func read(calls *atomic.Int64, pids []int) (r reading, err error) {
	r = reading{at: time.Now(), calls: calls.Load()}
	for _, pid := range pids {
		used, err := child.CPU(pid)
		if err != nil {
			return r, err
		}
		r.cpu = append(r.cpu, used)
	}
	return r, nil
}

// pause waits.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
