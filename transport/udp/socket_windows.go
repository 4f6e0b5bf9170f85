package udp

import (
	"errors"
	"os"
	"syscall"
)

// Errors of Winsock that package syscall does not have.
const (
	wsaEMsgSize    = syscall.Errno(10040)
	wsaENetDown    = syscall.Errno(10050)
	wsaENetUnreach = syscall.Errno(10051)
	wsaENetReset   = syscall.Errno(10052) // the TTL of a datagram has expired
	wsaEConnReset  = syscall.Errno(10054) // the peer's port is closed
	wsaEHostUnrch  = syscall.Errno(10065)
)

const (
	ipTOS      = unsupported // the system accepts it without effect
	ipv6TClass = unsupported

	msgTruncated = 0
	errTruncated = wsaEMsgSize
	errNoCall    = syscall.Errno(0) // there are no batches
	canTrySend   = false
)

// passingErrors are the errors after which reading goes on.
var passingErrors = [...]syscall.Errno{wsaEConnReset, wsaENetReset, wsaENetUnreach, wsaEHostUnrch, wsaENetDown}

// handle returns a socket as the type of package syscall.
func handle(fd int) syscall.Handle { return syscall.Handle(fd) }

// setOption sets an integer option.
func setOption(fd, level, name, value int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(handle(fd), level, name, value))
}

func getOption(fd, level, name int) (int, error) {
	n, err := syscall.GetsockoptInt(handle(fd), level, name)
	return n, os.NewSyscallError("getsockopt", err)
}

// setReuseAddress lets other sockets have the same address.
func setReuseAddress(fd int) error {
	return setOption(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
}

func trySend(int, []byte, syscall.Sockaddr) error { return errors.ErrUnsupported }
