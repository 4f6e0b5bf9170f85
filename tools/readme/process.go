package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

const (
	// gracePeriod is how long a background block may take to end after SIGTERM.
	gracePeriod = 15 * time.Second
	// pipeDelay is how long to wait for output after a block has ended, in case a process that it started still holds the pipe.
	pipeDelay = 2 * time.Second
	// maxOutput is how many bytes of a block's output are kept for the log.
	maxOutput = 32 << 10
)

// process is a block that runs in its own process group, so that all processes it starts end with it.
type process struct {
	block  block
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when the process has ended and err is set
	err    error
}

// launch starts a command, and a goroutine that waits for its end.
func launch(cmd *exec.Cmd, b block) (*process, error) {
	p := &process{block: b, cmd: cmd, output: newOutput(b.until), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.WaitDelay = pipeDelay
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// command runs a command until it ends, and kills it if ctx ends first. Processes that it leaves running are killed.
func command(ctx context.Context, cmd *exec.Cmd) error {
	p, err := launch(cmd, block{})
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		killGroup(cmd)
	case <-ctx.Done():
		killGroup(cmd)
		<-p.done
		return p.failure(fmt.Errorf("did not end: %w", ctx.Err()))
	}
	if errors.Is(p.err, exec.ErrWaitDelay) { // the command succeeded, but a process that it started still runs
		return nil
	}
	return p.failure(p.err)
}

// start starts a background block and returns when the block is ready.
func start(ctx context.Context, cmd *exec.Cmd, b block) (*process, error) {
	p, err := launch(cmd, b)
	if err != nil {
		return nil, err
	}
	if b.until == "" {
		return p, nil
	}
	select {
	case <-p.output.found:
		return p, nil
	case <-p.done:
		killGroup(cmd)
		return nil, p.failure(fmt.Errorf("ended without a line that contains %q: %w", b.until, orEnded(p.err)))
	case <-ctx.Done():
		killGroup(cmd)
		<-p.done
		return nil, p.failure(fmt.Errorf("wrote no line that contains %q: %w", b.until, ctx.Err()))
	}
}

// end ends a background block. It returns an error if the block has already ended or does not obey SIGTERM.
func (p *process) end() error {
	if err := terminateGroup(p.cmd); err != nil {
		<-p.done
		return p.failure(fmt.Errorf("ended before the last block: %w", orEnded(p.err)))
	}
	timer := time.NewTimer(gracePeriod)
	defer timer.Stop()
	select {
	case <-p.done:
		killGroup(p.cmd)
		return nil
	case <-timer.C:
		killGroup(p.cmd)
		<-p.done
		return p.failure(fmt.Errorf("was still running %v after SIGTERM", gracePeriod))
	}
}

var errEnded = errors.New("exit status 0")

// orEnded returns errEnded instead of a nil error.
func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// failure adds the output to an error.
func (p *process) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", err, p.output.tail())
}

// output keeps the end of a command's output and looks for a line in it.
type output struct {
	until []byte
	found chan struct{} // closed when the line has been found

	mu    sync.Mutex
	kept  []byte
	line  []byte // the incomplete last line, cut to maxOutput
	ready bool
}

func newOutput(until string) *output {
	return &output{until: []byte(until), found: make(chan struct{})}
}

// Write implements io.Writer. It never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if extra := len(o.kept) - maxOutput; extra > 0 {
		o.kept = append(o.kept[:0], o.kept[extra:]...)
	}
	n := len(p)
	for !o.ready && len(o.until) > 0 && len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			o.line = append(o.line, p[:min(len(p), max(maxOutput-len(o.line), 0))]...)
			break
		}
		if line := append(o.line, p[:end]...); bytes.Contains(line, o.until) {
			o.ready = true
			close(o.found)
		}
		o.line, p = o.line[:0], p[end+1:]
	}
	return n, nil
}

// tail returns the kept output.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}
