//go:build !386 && !s390x

package buffer

import "syscall"

// The calls for sockets are slightly cheaper than read and write, which work with any file.
const (
	sysReceive = syscall.SYS_RECVFROM
	sysSend    = syscall.SYS_SENDTO
	sysConnect = syscall.SYS_CONNECT

	sysGetOption = syscall.SYS_GETSOCKOPT
)
