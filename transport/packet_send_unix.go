//go:build unix

package transport

import "syscall"

const (
	// msgTruncated is the flag of a datagram that was cut.
	msgTruncated = syscall.MSG_TRUNC
	// errTruncated is the error that says so on some systems: not here.
	errTruncated = syscall.Errno(0)
	// errNoCall says that the kernel does not know a system call.
	errNoCall = syscall.ENOSYS
	// canTrySend says that there is a trySend.
	canTrySend = true
)

// trySend sends a datagram on a socket that does not block; a nil address is a connected socket's peer.
func trySend(fd int, data []byte, to syscall.Sockaddr) error {
	for {
		if err := syscall.Sendto(fd, data, 0, to); !isAny(err, syscall.EINTR) {
			return err
		}
	}
}
