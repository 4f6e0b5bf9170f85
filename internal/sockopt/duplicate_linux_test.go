package sockopt_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// A duplicate refers to the same file, has at least the requested number, and is closed on exec.
func TestDuplicate(t *testing.T) {
	fds := make([]int, 2)
	if err := syscall.Pipe(fds); err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		defer func() { _ = syscall.Close(fd) }()
	}
	for _, least := range []int{0, 3, 100} {
		dup, err := sockopt.Duplicate(uintptr(fds[1]), least)
		if err != nil || dup < least {
			t.Fatalf("at least %d: %d, %v", least, dup, err)
		}
		checkDuplicate(t, fds[1], dup)
	}
	if dup, err := sockopt.Duplicate(^uintptr(0), 0); err == nil || dup != -1 {
		t.Errorf("of no descriptor: %d, %v", dup, err)
	}
}

func checkDuplicate(t *testing.T, old, dup int) {
	t.Helper()
	defer func() { _ = syscall.Close(dup) }()
	var a, b syscall.Stat_t
	if err := syscall.Fstat(old, &a); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fstat(dup, &b); err != nil || a.Ino != b.Ino || a.Dev != b.Dev {
		t.Errorf("the duplicate is of another file, or of none: %v", err)
	}
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(dup), syscall.F_GETFD, 0); errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v", flags, errno)
	}
}

// The duplicate of a connection's descriptor stays open when the connection is closed.
func TestDuplicateUnder(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	dup, err := sockopt.DuplicateConn(rc)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(dup), "listener")
	defer func() { _ = file.Close() }()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	same, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = same.Close() }()
	if same.Addr().String() != ln.Addr().String() {
		t.Errorf("%v is not %v", same.Addr(), ln.Addr())
	}
	if dup, err := sockopt.DuplicateConn(rc); err == nil || dup != -1 {
		t.Errorf("of a closed one: %d, %v", dup, err)
	}
}
