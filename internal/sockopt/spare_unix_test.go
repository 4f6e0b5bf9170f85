//go:build unix

package sockopt_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// AcceptAndClose accepts and closes a waiting connection in place of the spare descriptor, as often as one waits. After Close there is no spare
// descriptor.
func TestSpend(t *testing.T) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rc, err := ln.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var r sockopt.SpareFD
	spend := func() (err error) {
		if failed := rc.Control(func(fd uintptr) { err = r.AcceptAndClose(int(fd)) }); failed != nil {
			t.Fatal(failed)
		}
		return err
	}
	r.Fill()
	for range 3 {
		if err := spend(); !errors.Is(err, syscall.EAGAIN) {
			t.Fatalf("nobody waits: %v", err)
		}
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := spend(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the peer hears %v", err)
		}
		_ = conn.Close()
	}
	r.Close()
	r.Fill()
	if err := spend(); err == nil || errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a reserve that is closed was spent: %v", err)
	}
}
