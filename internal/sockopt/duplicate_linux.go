package sockopt

import (
	"os"
	"syscall"
)

// Duplicate returns a duplicate of a descriptor, with a number of at least least. It is closed when the process executes another program.
func Duplicate(fd uintptr, least int) (int, error) {
	dup, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, uintptr(least))
	if errno != 0 {
		return -1, os.NewSyscallError("fcntl", errno)
	}
	return int(dup), nil
}

// DuplicateConn returns a duplicate of the descriptor of a connection. Descriptors of package net are non-blocking, and so is a duplicate.
func DuplicateConn(rc syscall.RawConn) (fd int, err error) {
	var failed error
	if err := rc.Control(func(old uintptr) { fd, failed = Duplicate(old, 0) }); err != nil {
		return -1, err
	}
	return fd, failed
}
