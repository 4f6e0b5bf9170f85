// Package child runs programs that answer lines of text with lines of JSON.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a child may live before it is killed: longer than anything that is measured takes.
const patience = 15 * time.Minute

// Process is a process that answers each line it is sent with a line of JSON. Its methods are for one goroutine.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	cancel context.CancelFunc
}

// Start runs a program, which is killed when ctx is done, and leaves the first line it prints, if first is not nil, in first.
func Start(ctx context.Context, first any, program string, args ...string) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	c := &Process{cmd: exec.CommandContext(ctx, program, args...), cancel: cancel}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	c.out = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	if first != nil {
		if err := c.read(first); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// Ask sends a line and decodes the answer, which is an error if it says so.
func (c *Process) Ask(answer any, format string, args ...any) error {
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		return err
	}
	return c.read(answer)
}

func (c *Process) read(answer any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s ended: %w", c.cmd.Path, err)
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(line, &failure); err != nil {
		return fmt.Errorf("%s: %w", c.cmd.Path, err)
	}
	if failure.Error != "" {
		return errors.New(failure.Error)
	}
	return json.Unmarshal(line, answer)
}

// Stop ends the process, which ends when its input does, and waits for it. The error says that it did not end well.
func (c *Process) Stop() error {
	_ = c.in.Close()
	timer := time.AfterFunc(10*time.Second, c.cancel)
	err := c.cmd.Wait()
	timer.Stop()
	c.cancel()
	if err != nil {
		return fmt.Errorf("%s: %w", c.cmd.Path, err)
	}
	return nil
}

// PID is the number of the process.
func (c *Process) PID() int { return c.cmd.Process.Pid }

// Resident returns how many bytes of memory the process has now and had at most.
func (c *Process) Resident() (now, peak int64, err error) {
	if now, err = Resident(c.PID()); err != nil {
		return 0, 0, err
	}
	peak, err = Peak(c.PID())
	return now, peak, err
}

// CPU returns how many nanoseconds of CPU a process has used, threads that ended included.
func CPU(pid int) (int64, error) {
	// The clock of another process, whose number the kernel makes of the process's: clock_getcpuclockid(3).
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return t.Nano(), nil
}

// Peak returns how many bytes of memory a process has had at most.
func Peak(pid int) (int64, error) {
	return kilobytes("/proc/"+strconv.Itoa(pid)+"/status", "VmHWM:")
}

// Resident returns how many bytes of memory a process has.
func Resident(pid int) (int64, error) {
	// smaps_rollup counts pages; the figures in status may lag behind.
	return kilobytes("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", "Rss:")
}

// kilobytes returns, in bytes, the figure behind name in a file of /proc.
func kilobytes(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, name)
}
