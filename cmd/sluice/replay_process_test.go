package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// replayProcess is a running sluice replay, started as users start it. It may be interrupted, and then continues from its mark.
type replayProcess struct {
	t      *testing.T
	path   string // of the program
	args   []string
	cmd    *exec.Cmd
	stdout *lockedBuffer
	stderr *lockedBuffer
	ended  chan struct{} // closed when the process has ended
	err    error         // the error of the process; set before ended is closed
}

// startReplay starts the replay of some traffic. The process is killed at the end of the test at the latest.
func startReplay(t *testing.T, path, node string, p *traffic, args ...string) *replayProcess {
	t.Helper()
	b := &replayProcess{t: t, path: path}
	b.args = []string{"replay", "--url", "http://" + node, "--checkpoint", filepath.Join(t.TempDir(), "checkpoint")}
	b.args = append(append(b.args, args...), p.files...)
	b.start()
	t.Cleanup(func() { b.end(syscall.SIGKILL) })
	return b
}

func (b *replayProcess) start() {
	b.t.Helper()
	b.cmd = exec.Command(b.path, b.args...)
	b.stdout, b.stderr, b.ended = &lockedBuffer{}, &lockedBuffer{}, make(chan struct{})
	b.cmd.Stdout, b.cmd.Stderr, b.cmd.Env = b.stdout, b.stderr, environ()
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.ended)
	}()
}

// end sends a signal and waits for the end of the process.
func (b *replayProcess) end(signal os.Signal) {
	_ = b.cmd.Process.Signal(signal)
	testwait.Receive(b.t, b.ended)
}

// interrupt interrupts the process and starts it again.
func (b *replayProcess) interrupt() {
	b.t.Helper()
	b.end(syscall.SIGTERM)
	if said := b.stderr.String(); !strings.Contains(said, "sluice: interrupted; to resume, run the same command with --checkpoint ") {
		b.t.Errorf("an interrupted replay ended with %v and says %s%s", b.err, b.stdout, said)
	}
	b.t.Logf("replay, interrupted: %s", strings.TrimSpace(b.stdout.String()))
	b.start()
}

// crash kills the process and starts it again.
func (b *replayProcess) crash() {
	b.t.Helper()
	b.end(syscall.SIGKILL)
	b.start()
}

// await waits for the end of the process and checks its summary: how much was published by this process and by earlier ones.
func (b *replayProcess) await(ctx context.Context, p *traffic) {
	b.t.Helper()
	select {
	case <-b.ended:
	case <-ctx.Done():
		b.t.Fatalf("the replay does not end:\n%s", b.stderr)
	}
	said := strings.TrimSpace(b.stdout.String())
	if b.err != nil {
		b.t.Fatalf("replay: %v\n%s\n%s", b.err, said, b.stderr)
	}
	b.t.Logf("replay: %s", said)
	var published, to, skipped, passed int
	parts := strings.Split(strings.ReplaceAll(said, ",", ""), "; ")
	_, err := fmt.Sscanf(parts[0], "%d publications to %d", &published, &to)
	for _, part := range parts[1:] {
		number, what, _ := strings.Cut(part, " ")
		switch {
		case strings.HasSuffix(what, "skipped"):
			_, err = fmt.Sscan(number, &skipped)
		case strings.HasSuffix(what, "accepted earlier"):
			_, err = fmt.Sscan(number, &passed)
		}
	}
	if err != nil || published+passed != p.frames || skipped != p.skipped {
		b.t.Errorf("replay says %q (%v), want %d publications in all and %d frames left out", said, err, p.frames, p.skipped)
	}
}
