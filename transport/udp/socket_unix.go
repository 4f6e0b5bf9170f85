//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package udp

import (
	"os"
	"runtime"
	"syscall"

	"github.com/sluice-push/sluice/internal/sockopt"
)

const (
	ipTOS      = syscall.IP_TOS
	ipv6TClass = syscall.IPV6_TCLASS
)

// passingErrors are the errors after which reading goes on.
var passingErrors = [...]syscall.Errno{
	syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.EMSGSIZE, syscall.EACCES,
	syscall.EOPNOTSUPP, syscall.ENOPROTOOPT, syscall.EPROTO, noNet,
}

// setOption sets an integer option. Two options of IPv4 are a single byte on some systems, and may be so on all.
func setOption(fd, level, name, value int) error {
	if level == syscall.IPPROTO_IP && (name == syscall.IP_MULTICAST_TTL || name == syscall.IP_MULTICAST_LOOP) {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptByte(fd, level, name, byte(value)))
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, level, name, value))
}

func getOption(fd, level, name int) (int, error) {
	n, err := syscall.GetsockoptInt(fd, level, name)
	return n, os.NewSyscallError("getsockopt", err)
}

// setReuseAddress lets other sockets have the same address. BSD systems need SO_REUSEPORT too.
func setReuseAddress(fd int) error {
	err := setOption(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil && runtime.GOOS != "linux" {
		err = sockopt.SetReusePort(fd)
	}
	return err
}
