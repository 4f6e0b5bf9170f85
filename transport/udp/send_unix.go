//go:build unix

package udp

import (
	"syscall"

	"github.com/sluice-push/sluice/internal/sockopt"
)

const (
	// msgTruncated is the flag of a truncated datagram.
	msgTruncated = syscall.MSG_TRUNC
	// errTruncated is the error of a truncated datagram on some systems, but not on this one.
	errTruncated = syscall.Errno(0)
	// errNoCall is the error of a system call that the kernel does not have.
	errNoCall = syscall.ENOSYS
	// canTrySend says that trySend works.
	canTrySend = true
)

// trySend sends a datagram on a non-blocking socket. If to is nil, it goes to the peer of the connected socket.
func trySend(fd int, data []byte, to syscall.Sockaddr) error {
	for {
		if err := syscall.Sendto(fd, data, 0, to); !sockopt.IsErrno(err, syscall.EINTR) {
			return err
		}
	}
}
