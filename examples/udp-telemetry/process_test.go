//go:build unix

package main_test

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

// start starts a receiver that prints often.
func start(t *testing.T, args ...string) (p *proctest.Process, address string) {
	t.Helper()
	p = program.Start(t, append([]string{"-listen", "127.0.0.1:0", "-interval", "20ms"}, args...)...)
	return p, p.After("listening on ")
}

// send sends datagrams from one address.
func send(t *testing.T, conn net.Conn, datagrams ...string) {
	t.Helper()
	for _, d := range datagrams {
		if _, err := conn.Write([]byte(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The latest measurement of each device counts, whatever else comes.
func TestReceive(t *testing.T) {
	p, address := start(t)
	boiler, pump := dial(t, address), dial(t, address)
	send(t, boiler, "boiler 2 21.5")
	p.Line("1 devices, 21.5 degrees on average, 21.5 at boiler; 1 received, 0 old, 0 bad")
	send(t, boiler, "boiler 2 99", "boiler 1 99")
	p.Line("21.5 at boiler; 1 received, 2 old, 0 bad")
	send(t, boiler, "boiler", "\x1b[31m 3 99", strings.Repeat("x", 2000))
	p.Line("21.5 at boiler; 1 received, 2 old, 3 bad")
	send(t, pump, "pump 1 -3.5")
	p.Line("2 devices, 9.0 degrees on average, 21.5 at boiler; 2 received, 2 old, 3 bad")

	p.Signal(syscall.SIGUSR1)
	p.Line("memory returned: ")
	if stdout := p.End(syscall.SIGTERM); !strings.Contains(stdout, "in all 2 received, 2 old, 3 bad") {
		t.Errorf("it said\n%s", stdout)
	}
}

// A device that is silent is forgotten, and known again when it is heard of.
func TestExpiry(t *testing.T) {
	p, address := start(t, "-expiry", "300ms")
	conn := dial(t, address)
	for _, sent := range []string{"1 received", "2 received"} {
		send(t, conn, "boiler 7 21.5") // the same number is no longer old
		p.Line("0 devices; " + sent)
		p.Line("0 devices; " + sent) // the first may have been counted before the device was there
	}
	p.End(syscall.SIGTERM)
}

// What is sent with -send is received.
func TestSend(t *testing.T) {
	p, address := start(t)
	status, stdout, stderr := program.Start(t, "-send", address, "-devices", "3", "-count", "5", "-interval", "10ms").Exit()
	if status != 0 || !strings.Contains(stdout, "15 datagrams sent") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
	if line := p.Line("15 received, 0 old, 0 bad"); !strings.Contains(line, "3 devices") {
		t.Errorf("it said %q", line)
	}

	endless := program.Start(t, "-send", address, "-devices", "2", "-interval", "10ms")
	p.Line("5 devices")
	endless.Signal(syscall.SIGUSR1)
	endless.Line("memory returned: ")
	endless.End(syscall.SIGTERM)
	p.End(syscall.SIGTERM)
}

// Where nobody listens devices learn that.
func TestNobody(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := pc.LocalAddr().String()
	_ = pc.Close()
	status, _, stderr := program.Start(t, "-send", address, "-interval", "10ms").Exit()
	if status != 1 || !strings.Contains(stderr, "refused") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range []string{"-expiry 0", "-interval 0", "-devices 0 -send 127.0.0.1:1", "-listen 127.0.0.1:no-port"} {
		if status, _, stderr := program.Start(t, strings.Fields(args)...).Exit(); status != 1 || stderr == "" {
			t.Errorf("%s: status %d, want 1\n%s", args, status, stderr)
		}
	}
}
