//go:build 386 || s390x

package buffer

import "syscall"

// Where sockets share one system call that takes its arguments from memory, read and write are simpler. They take no flags, so
// those are ignored; a signal for a broken connection is not sent to a program in Go: see package os/signal.
const (
	sysReceive = syscall.SYS_READ
	sysSend    = syscall.SYS_WRITE

	// No such calls: they fail.
	sysConnect   = ^uintptr(0)
	sysGetOption = ^uintptr(0)
)
