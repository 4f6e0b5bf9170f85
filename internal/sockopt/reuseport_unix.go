//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package sockopt

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

// soReusePort returns SO_REUSEPORT, which package syscall does not have on every architecture of Linux.
func soReusePort() int {
	if runtime.GOOS == "linux" && !strings.HasPrefix(runtime.GOARCH, "mips") {
		return 0xf
	}
	return 0x200
}

// SetReusePort lets other sockets use the same port. If the system does not have the option, the error is errors.ErrUnsupported.
func SetReusePort(fd int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort(), 1))
}
