//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import (
	"os"
	"syscall"
)

// setBacklog changes the number of connections that may wait. Calling listen(2) again does nothing else.
func setBacklog(fd, n int) error { return os.NewSyscallError("listen", syscall.Listen(fd, n)) }

// setMode sets the permissions that Linux creates the socket's file with, so that the file never has wider ones. Other systems refuse the call;
// there the file has wider permissions until Listen changes them.
func setMode(fd int, mode uint32) { _ = syscall.Fchmod(fd, mode) }
