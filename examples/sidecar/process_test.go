//go:build unix

package main_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc/frame"
)

// The program says what it forwards, and ends with SIGTERM.
func TestProgram(t *testing.T) {
	s := serve(t, listen(t, "tcp"))
	path := t.TempDir() + "/sidecar"
	p := program.Start(t, "-listen", "unix:"+path, "-to", where(s.ln), "-interval", "20ms", "-trace")
	if line := p.Line("listening on "); !strings.Contains(line, "forwarding to "+where(s.ln)+", listening on "+path) {
		t.Errorf("it said %q", line)
	}
	conn := dial(t, "unix", path)
	calls(t, conn, 0, 200)
	p.Line("client: call Echo, sequence ")
	p.Line("server: reply Echo, sequence ")
	if line := p.Line(": Echo "); !strings.Contains(line, " calls/s, ") || !strings.Contains(line, " 1 clients, 0 failed: ") {
		t.Errorf("it said %q", line)
	}
	if stdout := p.End(syscall.SIGTERM); !strings.Contains(stdout, "in all 200 calls, 200 answers, ") {
		t.Errorf("it said\n%s", stdout)
	}
	testwait.Receive(t, conn.Done())
}

// Bytes that are no frames end their connection, with a reason, and no other.
func TestHostile(t *testing.T) {
	s := serve(t, listen(t, "unix"))
	p := program.Start(t, "-listen", "127.0.0.1:0", "-to", where(s.ln), "-interval", "5ms", "-max-frame", "4194304")
	address := p.After("listening on ")
	innocent := dial(t, "tcp", address)
	call := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Call, Sequence: 1, Method: []byte("Echo")}
	call.Body = make([]byte, 1000)
	whole, err := call.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	call.SetMethod("\x1b[2J" + strings.Repeat("x", 300))
	long, err := call.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	header := binary.BigEndian.AppendUint16([]byte("\x00\x10\x00\x00\x10\x00\x00\x00\x00\x00\x00\x01"), 1<<16-1)
	for _, tt := range []struct {
		name, sent, want string
	}{
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "a bad frame from the client: frame: unknown dialect"},
		{"zeros", "\x00\x00\x00\x00\x00\x00\x00\x00", "a bad frame from the client: frame: malformed"},
		{"a large frame", "\x00\x50\x00\x00\x10\x00\x00\x00", "a bad frame from the client: frame: too large"},
		{"an unframed message", "\x80\x01\x00\x01\x00\x00\x00\x01E\x00\x00\x00\x01\x00", "a bad frame from the client: frame: unsupported"},
		{"a large header", string(header), "a bad frame from the client: frame: too large"},
		{"a long method", string(long), "a bad frame from the client: frame: too large"},
		{"bytes behind a frame", string(whole) + "and more text", "a bad frame from the client: frame: unknown dialect"},
		{"half a frame", string(whole[:500]), "the client has left in the middle of a frame"},
		{"half a head", string(whole[:7]), "the client has left in the middle of a frame"},
		{"random bytes", string(bytes.Repeat([]byte{0xA5, 0x5A, 0xFF}, 50_000)), "a bad frame from the client: frame: unknown dialect"},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(testwait.Bound))
		_, _ = io.WriteString(conn, tt.sent) // the proxy may have closed the connection before it has read all
		_ = conn.(*net.TCPConn).CloseWrite()
		for err = nil; err == nil; {
			_, err = conn.Read(make([]byte, 4<<10))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection was not ended", tt.name)
		}
		_ = conn.Close()
		if line := p.Line("client 127.0.0.1:"); !strings.Contains(line, tt.want) {
			t.Errorf("%s: it said %q, want %q", tt.name, line, tt.want)
		}
		calls(t, innocent, 0, 64)
	}
	if stdout := p.End(syscall.SIGTERM); strings.Contains(stdout, "\x1b") || !strings.Contains(stdout, ", 10 failed") {
		t.Errorf("it said\n%s", stdout)
	}
}

// A server that sends something else than frames loses its client.
func TestHostileServer(t *testing.T) {
	ln := listen(t, "tcp")
	defer ln.Close()
	p := program.Start(t, "-listen", "unix:"+t.TempDir()+"/s", "-to", where(ln))
	client, err := net.Dial("unix", p.After("listening on "))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := io.WriteString(server, "HTTP/1.1 400 Bad Request\r\n"); err != nil {
		t.Fatal(err)
	}
	client.SetDeadline(time.Now().Add(testwait.Bound))
	if n, err := client.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	p.Line("a bad frame from the server: frame: unknown dialect")
	p.End(os.Interrupt)
}

// Clients beyond -connections are refused, and so is a client while the server is away.
func TestRefused(t *testing.T) {
	path := t.TempDir() + "/server"
	p := program.Start(t, "-listen", "127.0.0.1:0", "-to", "unix:"+path, "-connections", "1")
	address := p.After("listening on ")
	refused := func(reason string) {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(testwait.Bound))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
		p.Line(reason)
	}
	refused("the server cannot be reached: dial unix " + path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln)
	p.Line(" 0 clients, 1 failed") // so that its place is free
	calls(t, dial(t, "tcp", address), 0, 1)
	refused("there are as many clients as -connections allows")
	p.End(syscall.SIGTERM)
}

// Settings that cannot be are refused.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"":                                   {1, "-to is missing"},
		"-to 127.0.0.1:1 -connections 0":     {1, "-connections"},
		"-to 127.0.0.1:1 -max-frame 0":       {1, "-max-frame"},
		"-to 127.0.0.1:1 -splice -1":         {1, "-splice"},
		"-to 127.0.0.1:1 -listen unix:/no/s": {1, "sidecar: listen unix"},
		"-to 127.0.0.1:1 7001":               {2, `what is "7001"?`},
	} {
		status, stdout, stderr := program.Start(t, strings.Fields(args)...).Exit()
		if status != want.status || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: status %d, want %d\n%s\n%s", args, status, want.status, stdout, stderr)
		}
	}
}
