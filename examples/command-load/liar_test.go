//go:build unix

package main_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/examples/internal/command"
)

// liar is a server of one client at a time that does what a test says. Its requests are small.
type liar struct {
	t    *testing.T
	ln   *net.TCPListener
	conn net.Conn
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return &liar{t: t, ln: ln}
}

// accept waits for the client and answers its connect.
func (l *liar) accept() {
	l.t.Helper()
	if err := l.ln.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		l.t.Fatal(err)
	}
	conn, err := l.ln.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	l.conn = conn
	connect := make([]byte, command.Header+len("load-0"))
	if _, err := io.ReadFull(conn, connect); err != nil || connect[4] != command.Connect {
		l.t.Fatalf("got %q, %v", connect, err)
	}
	l.answers(command.Answer{Command: command.Connected})
}

// gets expects submits with these ids, of 13 bytes each.
func (l *liar) gets(ids ...uint64) {
	l.t.Helper()
	for _, id := range ids {
		got, want := make([]byte, command.Header), command.AppendRequest(nil, command.Request{Command: command.Submit, ID: id})
		if _, err := io.ReadFull(l.conn, got); err != nil || string(got) != string(want) {
			l.t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

// answers writes answers.
func (l *liar) answers(all ...command.Answer) {
	l.t.Helper()
	var frames []byte
	for _, a := range all {
		frames = command.AppendAnswer(frames, a)
	}
	if _, err := l.conn.Write(frames); err != nil {
		l.t.Fatal(err)
	}
}

// submitted is the answer to a submit.
func submitted(id uint64) command.Answer { return command.Answer{Command: command.Submitted, ID: id} }

// Whatever is wrong with the answers is said, and is no success.
func TestLiars(t *testing.T) {
	tests := []struct {
		name    string
		answers []command.Answer
		want    string
	}{
		{"twice", []command.Answer{submitted(1), submitted(1)}, "a second answer to request 1"},
		{"out of order", []command.Answer{submitted(2), submitted(1)}, "an answer to request 2, before that to 1"},
		{"of nothing", []command.Answer{submitted(4)}, "an answer to request 4, which was never sent"},
		{"zero", []command.Answer{submitted(0)}, "an answer to request 0, which was never sent"},
		{"refused", []command.Answer{{Command: command.Submitted, ID: 1, Result: command.NotConnected}}, "request 1 has the result 1"},
		{"connected twice", []command.Answer{{Command: command.Connected}}, "an answer to connect 0"},
		{"a request", []command.Answer{{Command: command.Submit, ID: 1}}, "unknown command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLiar(t)
			p := startLoad(t, l.ln.Addr().String(), "-clients 1 -messages 3 -in-flight 3 -size 13")
			l.accept()
			l.gets(1, 2, 3)
			l.answers(tt.answers...)
			status, _, stderr := p.Exit()
			if status != 1 || !strings.Contains(stderr, "client 0: ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("status %d, want 1 and %q\n%s", status, tt.want, stderr)
			}
		})
	}
}

// A server that says nothing is not waited for longer than -timeout.
func TestSilence(t *testing.T) {
	l := newLiar(t)
	status, _, stderr := startLoad(t, l.ln.Addr().String(), "-clients 2 -timeout 100ms").Exit()
	if status != 1 || !strings.Contains(stderr, "0 requests not answered: session: timeout") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

// With -reconnect what was not answered is sent again, in order, before anything new, and only that.
func TestSentAgain(t *testing.T) {
	l := newLiar(t)
	p := startLoad(t, l.ln.Addr().String(), "-reconnect -clients 1 -messages 6 -in-flight 3 -size 13")
	l.accept()
	l.gets(1, 2, 3)
	l.answers(submitted(1))
	l.gets(4)
	_ = l.conn.Close()
	l.accept()
	l.gets(2, 3, 4)
	l.answers(submitted(2), submitted(3))
	l.gets(5, 6)
	l.answers(submitted(4), submitted(5), submitted(6))
	if n, err := l.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v; want the end", n, err)
	}
	_ = l.conn.Close()
	status, stdout, stderr := p.Exit()
	if status != 0 {
		t.Errorf("status %d\n%s", status, stderr)
	}
	contains(t, stdout, "answered 6 of 6, 1 reconnects, 3 sent again", "every answer came, in order, exactly once")
}
