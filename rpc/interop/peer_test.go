package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc/frame"
)

// language is a program in testdata that calls, and serves, with Apache's library for a language.
type language struct {
	name      string
	folder    string
	installed string // a file that make deps creates as its last step
	command   []string
	calls     []string // the dialects of its clients
	serves    []string // those of its servers

	// The codes of exceptions of its servers: of a method that fails with an error that is not declared, and of an unknown method.
	undeclared, unknown int32
}

// task is a task for such a program: to make calls, or, without a port, to start a server.
type task struct {
	Dialect string `json:"dialect"`
	Port    int    `json:"port,omitempty"`
	Seed    int32  `json:"seed"`
}

// report is the answer.
type report struct {
	Port   int
	Calls  int
	Errors []string
}

// peer is such a program while it runs.
type peer struct {
	stdin  io.Writer
	stdout *bufio.Scanner
	stderr *strings.Builder // complete when the program has ended
	end    context.CancelFunc
}

// start starts the program. It runs until the end of the test.
func (l *language) start(t *testing.T) *peer {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", l.folder))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, l.installed)); err != nil {
		t.Fatalf("Apache Thrift for %s is not installed: run make deps (%v)", l.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, l.command[0], l.command[1:]...)
	p := &peer{stderr: &strings.Builder{}, end: cancel}
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = folder, p.stderr, time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatalf("%s cannot be run, install it by make deps: %v", l.name, err)
	}
	p.stdin, p.stdout = stdin, bufio.NewScanner(stdout)
	t.Cleanup(func() {
		if t.Failed() {
			cancel() // it may hang
		}
		_ = stdin.Close() // this ends it
		defer time.AfterFunc(testwait.Bound, cancel).Stop()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			t.Errorf("%s has ended: %v", l.name, err)
		}
		cancel()
		if t.Failed() {
			t.Logf("%s wrote to standard error:\n%s", l.name, p.stderr)
		}
	})
	return p
}

// do has the program carry out a task.
func (p *peer) do(t *testing.T, o task) (r report) {
	t.Helper()
	if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
		t.Fatalf("the program has ended: %v", err)
	}
	defer time.AfterFunc(testwait.Bound, p.end).Stop()
	if !p.stdout.Scan() {
		t.Fatalf("the program has ended, or was ended after %v: %v", testwait.Bound, p.stdout.Err())
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, p.stdout.Bytes())
	}
	return r
}

// sent says how a frame was sent.
type sent struct {
	frame.Dialect

	zlib bool
}

// wiretap hands connections on to a server, and looks at what the clients send.
type wiretap struct {
	listener net.Listener
	server   string
	group    sync.WaitGroup

	mu    sync.Mutex
	calls map[sent]int
	errs  []error
}

// listen starts a wiretap.
func listen(server string) (*wiretap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wiretap{listener: l, server: server, calls: map[sent]int{}}
	w.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.group.Go(func() { w.pass(conn) })
		}
	})
	return w, nil
}

// port returns the port that clients connect to.
func (w *wiretap) port() int {
	_, port, _ := net.SplitHostPort(w.listener.Addr().String())
	n, _ := strconv.Atoi(port)
	return n
}

// pass hands one connection on.
func (w *wiretap) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		w.note(nil, err)
		return
	}
	w.group.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	defer server.Close()
	c := frame.New(nil)
	for in, buf := []byte(nil), make([]byte, 32<<10); ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:n]...)
		for used := 1; used > 0; in = in[max(used, 0):] {
			if _, used, err = c.Decode(in); err != nil {
				w.note(nil, err)
				return
			}
			if used > 0 {
				w.note(c.Frame(), nil)
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// note notes a frame or an error.
func (w *wiretap) note(f *frame.Frame, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f != nil {
		w.calls[sent{f.Dialect, len(f.Transforms) > 0}]++
	} else if !errors.Is(err, net.ErrClosed) {
		w.errs = append(w.errs, err)
	}
}

// stop ends the wiretap when its clients have ended their connections, and returns how many frames they sent in each way.
func (w *wiretap) stop(t *testing.T) map[sent]int {
	t.Helper()
	_ = w.listener.Close()
	testwait.Return(t, w.group.Wait)
	if err := errors.Join(w.errs...); err != nil {
		t.Error(err)
	}
	return w.calls
}
