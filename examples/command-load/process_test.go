//go:build unix

package main_test

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

// startServer starts a server and returns its address.
func startServer(t *testing.T, listen string, args ...string) (p *proctest.Process, address string) {
	t.Helper()
	p = server.Start(t, append([]string{"-listen", listen}, args...)...)
	return p, p.After("listening on ")
}

// startLoad starts a load against a server.
func startLoad(t *testing.T, address, args string) *proctest.Process {
	t.Helper()
	return program.Start(t, append([]string{"-connect", address, "-interval", "50ms"}, strings.Fields(args)...)...)
}

// contains fails the test for each text that is not in what was printed.
func contains(t *testing.T, printed string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			t.Errorf("no %q in what was printed:\n%s", text, printed)
		}
	}
}

// What is sent is answered and counted, by both sides, with and without a pool.
func TestLoad(t *testing.T) {
	for _, args := range []string{"-in-flight 1", "-size 13", "-size 65536 -in-flight 3", "-reconnect", "-in-flight 1000 -reconnect"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			srv, address := startServer(t, "127.0.0.1:0", "-workers", "2")
			status, stdout, stderr := startLoad(t, address, args+" -clients 3 -messages 200").Exit()
			if status != 0 {
				t.Errorf("status %d\n%s", status, stderr)
			}
			contains(t, stdout, "answered 600 of 600", "every answer came, in order, exactly once")
			contains(t, srv.End(syscall.SIGTERM), "clients: 3, requests: 603, answers: 603")
		})
	}
}

var answered = regexp.MustCompile(`answered (\d+)`)

// progress reads lines that contain text until one says that more was answered, and returns how much.
func progress(t *testing.T, p *proctest.Process, text string, than int) int {
	t.Helper()
	for {
		line := p.Line(text)
		if match := answered.FindStringSubmatch(line); match != nil {
			if n, err := strconv.Atoi(match[1]); err == nil && n > than {
				return n
			}
		}
	}
}

// With -reconnect a load goes on when the server is started anew on the same port.
func TestRestart(t *testing.T) {
	srv, address := startServer(t, "127.0.0.1:0")
	p := startLoad(t, address, "-reconnect -clients 3 -messages 0")
	n := progress(t, p, "3 of 3 connected", 0)
	p.Signal(syscall.SIGUSR1)
	p.Line("memory returned: ")
	srv.End(syscall.SIGTERM)
	p.Line("0 of 3 connected")
	srv, _ = startServer(t, address)
	n = progress(t, p, "3 of 3 connected", n)
	progress(t, p, "3 of 3 connected", n)
	contains(t, p.End(syscall.SIGTERM), "3 reconnects", "every answer came, in order, exactly once")
	contains(t, srv.End(syscall.SIGTERM), "clients: 3, ")
}

// Without -reconnect it ends when the server does, and says what is missing.
func TestServerEnds(t *testing.T) {
	srv, address := startServer(t, "127.0.0.1:0")
	p := startLoad(t, address, "-messages 0")
	progress(t, p, "messages/s", 0)
	srv.End(syscall.SIGTERM)
	status, _, stderr := p.Exit()
	if status != 1 || !strings.Contains(stderr, "requests not answered") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

// SIGTERM stops sending, and what is in flight is answered.
func TestStop(t *testing.T) {
	srv, address := startServer(t, "127.0.0.1:0")
	p := startLoad(t, address, "-messages 0 -in-flight 100")
	progress(t, p, "messages/s", 0)
	contains(t, p.End(syscall.SIGTERM), "every answer came, in order, exactly once")
	srv.End(syscall.SIGTERM)
}

// Where there is no server it gives up.
func TestNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	for args, want := range map[string]string{"": "client 0: ", "-reconnect -attempts 2": "refused"} {
		status, _, stderr := startLoad(t, address, args).Exit()
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, want 1 and %q\n%s", args, status, want, stderr)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range []string{
		"-clients 0", "-in-flight 0", "-in-flight 65537", "-size 12", "-size 65537", "-attempts 0", "-timeout 0", "-interval -1s",
		"-in-flight 65536 -size 65536",
	} {
		flag := strings.Fields(args)[0]
		status, _, stderr := program.Start(t, strings.Fields(args)...).Exit()
		if status != 1 || !strings.Contains(stderr, flag) {
			t.Errorf("%s: status %d, want 1\n%s", args, status, stderr)
		}
	}
	if status, _, stderr := program.Start(t, "-messages", "-1").Exit(); status != 2 {
		t.Error(fmt.Sprint("status ", status, " for a negative number of messages\n", stderr))
	}
}
