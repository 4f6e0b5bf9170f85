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
	// pipeDelay is how long output is waited for after a block ended, in case something it started still holds the pipe.
	pipeDelay = 2 * time.Second
	// maxOutput is how much of a block's output is kept for the log.
	maxOutput = 32 << 10
)

// process is a block that runs in its own process group, so that all it starts ends with it.
type process struct {
	block  block
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when it has ended and err is set
	err    error
}

// launch starts a command. Its end is noticed by a goroutine, which ends with the command.
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

// command runs a command to its end, or kills it when ctx ends. What it leaves running is killed.
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
	if errors.Is(p.err, exec.ErrWaitDelay) { // it ended well, something it started did not
		return nil
	}
	return p.failure(p.err)
}

// start starts a background block and returns once it is ready.
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

// end ends a background block and says what was wrong with it: it must still be running and must obey SIGTERM.
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

// orEnded stands in for the error of a command that had none.
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

// output keeps the end of what a command writes and looks for a line in it.
type output struct {
	until []byte
	found chan struct{} // closed when the line was there

	mu    sync.Mutex
	kept  []byte
	line  []byte // the part of the present line that was written, cut to maxOutput
	ready bool
}

func newOutput(until string) *output {
	return &output{until: []byte(until), found: make(chan struct{})}
}

// Write never fails.
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

// tail returns the end of what was written.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}
