//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import (
	"os"
	"runtime"
	"syscall"
)

const (
	ipTOS      = syscall.IP_TOS
	ipv6TClass = syscall.IPV6_TCLASS
)

// passingErrors are those after which reading goes on.
var passingErrors = [...]syscall.Errno{
	syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.EMSGSIZE, syscall.EACCES,
	syscall.EOPNOTSUPP, syscall.ENOPROTOOPT, syscall.EPROTO, noNet,
}

// setPacketOption sets an integer option. Two of IPv4 are a single byte on some systems, and may be on all.
func setPacketOption(fd, level, name, value int) error {
	if level == syscall.IPPROTO_IP && (name == syscall.IP_MULTICAST_TTL || name == syscall.IP_MULTICAST_LOOP) {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptByte(fd, level, name, byte(value)))
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, level, name, value))
}

func getPacketOption(fd, level, name int) (int, error) {
	n, err := syscall.GetsockoptInt(fd, level, name)
	return n, os.NewSyscallError("getsockopt", err)
}

// setReuseAddress lets others have the same address. The systems of BSD want SO_REUSEPORT for it as well.
func setReuseAddress(fd int) error {
	err := setPacketOption(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil && runtime.GOOS != "linux" {
		err = setReusePort(fd)
	}
	return err
}
