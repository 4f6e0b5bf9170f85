// Package process starts the client processes of a load test, and ends them.
package process

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Process is a process that was started. Out and In may be used concurrently, each by one goroutine.
type Process struct {
	In  io.Writer // its standard input, which End closes
	Out io.Reader // its standard output, which ends with the process
	end func() error
}

// exitTimeout is how long a process may take to exit before it is killed.
const exitTimeout = 5 * time.Second

// Start starts a process. The command has no pipes and is not started. If its Stderr is nil, the end of what the process writes there becomes part
// of the error of End. The caller calls End.
func Start(cmd *exec.Cmd) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr := &tail{}
	if cmd.Stderr == nil {
		cmd.Stderr = stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := sync.OnceValue(func() error {
		_ = in.Close()
		timer := time.AfterFunc(exitTimeout, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		err := cmd.Wait()
		if text := stderr.String(); err != nil && text != "" {
			return fmt.Errorf("%w: %s", err, text)
		}
		return err
	})
	return &Process{In: in, Out: out, end: end}, nil
}

// End closes the standard input of the process and waits for its exit. A process that has not exited after five seconds is killed. The error is not
// nil unless the process exited with code 0. End may be called more than once, and concurrently.
func (p *Process) End() error { return p.end() }

// tail keeps the end of what is written to it. Its methods may be called concurrently.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how many bytes a tail keeps.
const tailBytes = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(len(t.text)-tailBytes, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
