//go:build 386 || s390x

package buffer

import "syscall"

// On these architectures all socket calls share one system call, socketcall(2), which takes its arguments from memory. read and write are
// simpler. They take no flags, so flags are ignored. That loses nothing: a Go program gets no SIGPIPE for a broken connection (see package
// os/signal).
const (
	sysReceive = syscall.SYS_READ
	sysSend    = syscall.SYS_WRITE

	// No such calls: they fail.
	sysConnect   = ^uintptr(0)
	sysGetOption = ^uintptr(0)
)
