package socket

import (
	"os"
	"syscall"
)

// Duplicate returns another number for a descriptor, which is at least as large as least and does not pass to programs that are executed.
func Duplicate(fd uintptr, least int) (int, error) {
	dup, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, uintptr(least))
	if errno != 0 {
		return -1, os.NewSyscallError("fcntl", errno)
	}
	return int(dup), nil
}

// DuplicateUnder returns another number for the descriptor of a connection. Package net's do not block, and a duplicate shares that.
func DuplicateUnder(rc syscall.RawConn) (fd int, err error) {
	var failed error
	if err := rc.Control(func(old uintptr) { fd, failed = Duplicate(old, 0) }); err != nil {
		return -1, err
	}
	return fd, failed
}
