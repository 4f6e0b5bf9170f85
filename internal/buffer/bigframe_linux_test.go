package buffer_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A file that the kernel cannot send is read instead, and arrives.
func TestFilesThatTheKernelCannotSend(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours, theirs := pair(t)
	defer theirs.Close()
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(theirs)
		got <- all
	}()
	l, err := buffer.NewFile([]byte("head"), f, 5, int64(len(content))-5)
	if err != nil {
		t.Fatal(err)
	}
	l.Copied()
	pool := &buffer.Pool{Size: 999}
	rc, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := rc.Write(func(fd uintptr) bool {
		for l.Remaining() > 0 {
			n, err := l.WriteTo(fd, pool)
			if err != nil {
				t.Error(err)
				return true
			}
			if n == 0 {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	l.Finish(nil)
	_ = ours.Close()
	if all := testwait.Receive(t, got); string(all) != "head"+string(content[5:]) {
		t.Errorf("%d bytes came", len(all))
	}
	over, _ := buffer.NewFile(nil, f, int64(len(content)), 1)
	over.Copied()
	if err := over.FillBatch(buffer.NewBatch(), pool); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// pair returns the two ends of a Unix connection.
func pair(t *testing.T) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}
