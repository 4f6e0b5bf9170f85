//go:build unix

package main_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

var (
	program = proctest.New(".")
	server  = proctest.New("../rpc-echo")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		server.Remove()
		os.Exit(code)
	}))
}

// startServer starts a server and returns its address.
func startServer(t *testing.T) (p *proctest.Process, address string) {
	t.Helper()
	p = server.Start(t, "-listen", "127.0.0.1:0")
	return p, p.After("listening on ")
}

// Calls in every form and framing are answered with their own text, and both sides count them.
func TestLoad(t *testing.T) {
	srv, address := startServer(t)
	all := []string{
		"-form json", "-form raw", "-form raw -size 0", "-form raw -size 300000 -callers 3", "-form protobuf", "-form thrift", "-form thrift-compact",
		"-form thrift -framing theader", "-form thrift-compact -framing theader", "-form thrift -framing framed", "-form thrift-compact -framing unframed",
		"-callers 300 -conns 7",
	}
	t.Run("", func(t *testing.T) {
		for _, args := range all {
			t.Run(args, func(t *testing.T) {
				t.Parallel()
				list := append([]string{"-addr", address, "-calls", "500", "-interval", "10ms"}, strings.Fields(args)...)
				status, stdout, stderr := program.Start(t, list...).Exit()
				if status != 0 || !strings.Contains(stdout, " 500 calls, 0 errors") || !strings.Contains(stdout, "every call was answered") {
					t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
				}
			})
		}
	})
	if out := srv.End(syscall.SIGTERM); !strings.Contains(out, ": 6000 calls, 0 of them refused or failed") {
		t.Errorf("of %d loads with 500 calls the server says\n%s", len(all), out)
	}
}

// A load that is asked to end waits for its calls, and is no failure. A server that is killed is one.
func TestEnds(t *testing.T) {
	srv, address := startServer(t)
	p := program.Start(t, "-addr", address, "-calls", "0", "-interval", "10ms")
	p.Line("calls/s")
	if out := p.End(syscall.SIGTERM); !strings.Contains(out, "every call was answered") {
		t.Errorf("it ended with\n%s", out)
	}
	p = program.Start(t, "-addr", address, "-calls", "0", "-interval", "10ms")
	p.Line("calls/s")
	srv.Signal(syscall.SIGKILL)
	if status, _, stderr := p.Exit(); status != 1 || !strings.Contains(stderr, "calls failed, the first: rpc: ") {
		t.Errorf("status %d after the server was killed\n%s", status, stderr)
	}
	if status, _, stderr := program.Start(t, "-addr", address).Exit(); status != 1 || !strings.Contains(stderr, "refused") {
		t.Errorf("status %d without a server\n%s", status, stderr)
	}
}

// Flags that make no sense are refused, with what is wrong.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-form xml":                "json, protobuf, raw",
		"-framing http":            `there is no "http"`,
		"-framing framed":          "is for the forms of thrift",
		"-callers 0":               "-callers: 1 to",
		"-conns 0":                 "-conns: 1 to",
		"-size -1":                 "-size: 0 to",
		"-timeout 0s":              "more than nothing",
		"-addr 127.0.0.1:no-port":  "no-port",
		"-addr unix:/no/such/path": "/no/such/path",
	} {
		if status, _, stderr := program.Start(t, strings.Fields(args)...).Exit(); status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, and not %q but\n%s", args, status, want, stderr)
		}
	}
}
