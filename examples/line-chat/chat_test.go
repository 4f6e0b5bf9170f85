//go:build unix

package main_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// person is somebody with nc.
type person struct {
	t     *testing.T
	conn  *net.TCPConn
	lines *bufio.Scanner
}

// join connects and takes a name.
func join(t *testing.T, address, name string) *person {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.SetDeadline(time.Now().Add(40 * time.Second))
	p := &person{t, conn.(*net.TCPConn), bufio.NewScanner(conn)}
	p.hears("* you are guest")
	p.says("/name " + name)
	p.hears("* you are " + name)
	return p
}

func (p *person) says(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Fatal(err)
	}
}

// hears expects the next line to begin with text.
func (p *person) hears(text string) {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no line, %v; want %q", p.lines.Err(), text)
	}
	if !strings.HasPrefix(p.lines.Text(), text) {
		p.t.Fatalf("heard %q, want %q", p.lines.Text(), text)
	}
}

// leftAlone expects the end.
func (p *person) leftAlone() {
	p.t.Helper()
	if p.lines.Scan() || p.lines.Err() != nil {
		p.t.Fatalf("heard %q, %v; want the end", p.lines.Text(), p.lines.Err())
	}
}

// asks asks who is there, and reports whether a line up to the answer contains text.
func (p *person) asks(text string) bool {
	p.t.Helper()
	p.says("/who")
	for p.lines.Scan() {
		if strings.Contains(p.lines.Text(), text) {
			return true
		}
		if strings.Contains(p.lines.Text(), " here: ") {
			return false
		}
	}
	p.t.Fatalf("the end, %v", p.lines.Err())
	return false
}

func TestChat(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	address := p.After("listening on ")
	ann := join(t, address, "ann")
	bob := join(t, address, "bob")
	ann.hears("* guest2 has come")
	ann.hears("* guest2 is now bob")

	ann.says("hello, bob\r")
	bob.hears("<ann> hello, bob")
	bob.says("\x1b[31mhello, ann")
	ann.hears("<bob> [31mhello, ann")
	bob.says("/who")
	bob.hears("* 2 here: ann, bob")

	bob.says("/name ann")
	bob.hears("* ann is taken")
	bob.says("/name a b")
	bob.hears("* a name has 1 to 20 letters")
	bob.says("/nme")
	bob.hears("* there is no /nme")
	bob.says("")
	bob.says("/name bert")
	bob.hears("* you are bert")
	ann.hears("* bob is now bert")

	cid := join(t, address, "cid")
	ann.hears("* guest3 has come")
	ann.hears("* guest3 is now cid")
	cid.says(strings.Repeat("x", 1001))
	cid.leftAlone()
	ann.hears("* cid has left")
	bob.hears("* guest3 has come")
	bob.hears("* guest3 is now cid")
	bob.hears("* cid has left")
	bob.says("/quit")
	bob.hears("* goodbye")
	bob.leftAlone()
	_ = bob.conn.Close()
	ann.hears("* bert has left")

	p.Signal(syscall.SIGUSR1)
	p.Line("memory returned: ")
	p.Signal(syscall.SIGTERM)
	ann.hears("* the server ends")
	ann.leftAlone()
	_ = ann.conn.Close()
	if status, stdout, stderr := p.Exit(); status != 0 {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

// Whoever does not read is dealt with as -slow says, and the others talk on.
func TestSlow(t *testing.T) {
	for slow, want := range map[string]string{"drop": "lazy (missed ", "refuse": "lazy (missed ", "close": "* lazy has left"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			p := program.Start(t, "-listen", "127.0.0.1:0", "-slow", slow)
			address := p.After("listening on ")
			lazy := join(t, address, "lazy")
			if err := lazy.conn.SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			ann, bob := join(t, address, "ann"), join(t, address, "bob")
			// Bob hears what ann says, and asks who has missed something, until it is lazy, or lazy is gone.
			for i := 0; !bob.asks(want); i++ {
				ann.says(fmt.Sprintf("%d %s", i, strings.Repeat("x", 900)))
			}
			_ = lazy.conn.Close()
			p.End(syscall.SIGTERM)
		})
	}
}

func TestUnknownPolicy(t *testing.T) {
	status, _, stderr := program.Start(t, "-slow", "wait").Exit()
	if status != 2 || !strings.Contains(stderr, "drop, refuse or close is expected") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}
