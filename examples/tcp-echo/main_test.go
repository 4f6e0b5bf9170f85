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

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// Messages of every size come back, also many in one write; SIGUSR1 is answered, and SIGTERM ends it in order.
func TestEcho(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	conn, err := net.Dial("tcp", p.After("listening on "))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	var sent []byte
	for _, size := range []int{0, 1, 5, 4096, 64 << 10} {
		sent = binary.BigEndian.AppendUint32(sent, uint32(size))
		sent = append(sent, bytes.Repeat([]byte{byte(size) + 1}, size)...)
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what came back is not what was sent")
	}

	p.Signal(syscall.SIGUSR1)
	p.Line("memory returned: ")
	p.Signal(syscall.SIGTERM)
	if n, err := conn.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after SIGTERM %d bytes and %v, want the end", n, err)
	}
	_ = conn.Close()
	if status, stdout, stderr := p.Exit(); status != 0 || !strings.HasSuffix(stdout, ": ended") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

// A length that is too large ends the connection, and no other.
func TestTooLarge(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	address := p.After("listening on ")
	for _, sent := range []string{"\xff\xff\xff\xff", "\x01\x00\x00\x01"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v, want the end", sent, err)
		}
		_ = conn.Close()
	}
	p.End(os.Interrupt)
}

// Whoever does not want to wait for peers that stay asks a second time.
func TestTwice(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	conn, err := net.Dial("tcp", p.After("listening on "))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	// An echo shows that there is a session.
	if _, err := conn.Write(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	p.Signal(os.Interrupt)
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d bytes and %v, want the end", n, err)
	}
	p.Signal(os.Interrupt)
	if status, stdout, stderr := p.Exit(); status != -1 || strings.Contains(stdout, "ended") {
		t.Errorf("status %d, want that of a signal\n%s\n%s", status, stdout, stderr)
	}
}

// What cannot be is said, and is no success.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"-listen 127.0.0.1:no-port": {1, "tcp-echo: listen tcp: "},
		"7001":                      {2, `what is "7001"?`},
		"-port 7001":                {2, "-port"},
	} {
		status, stdout, stderr := program.Start(t, strings.Fields(args)...).Exit()
		if status != want.status || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: status %d, want %d\n%s\n%s", args, status, want.status, stdout, stderr)
		}
	}
}
