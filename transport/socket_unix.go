//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

// soReusePort returns SO_REUSEPORT, which package syscall does not have on every kind of Linux.
func soReusePort() int {
	if runtime.GOOS == "linux" && !strings.HasPrefix(runtime.GOARCH, "mips") {
		return 0xf
	}
	return 0x200
}

// setReusePort lets others listen on the same port.
func setReusePort(fd int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort(), 1))
}

// setBacklog changes how many connections may wait. Listening again does nothing else.
func setBacklog(fd, n int) error { return os.NewSyscallError("listen", syscall.Listen(fd, n)) }

// setMode gives the socket the permissions that Linux makes its file with, so that it is never open to more than they say. Other
// systems refuse, and have a moment between making the file and changing it.
func setMode(fd int, mode uint32) { _ = syscall.Fchmod(fd, mode) }
