package sockopt

import (
	"os"
	"syscall"
)

// ipBindAddressNoPort is IP_BIND_ADDRESS_NO_PORT of linux/in.h.
const ipBindAddressNoPort = 24

// NotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall does not have.
const NotSentLowat = 25

func (o Options) control(_, _ string, c syscall.RawConn) error {
	var set error
	option := func(is bool, fd uintptr, level, name, value int) {
		if is && set == nil {
			set = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), level, name, value))
		}
	}
	err := c.Control(func(fd uintptr) {
		option(o.Receive > 0, fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, o.Receive)
		option(o.Send > 0, fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, o.Send)
		option(o.BindNoPort, fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
		option(o.NotSent > 0, fd, syscall.IPPROTO_TCP, NotSentLowat, o.NotSent)
	})
	if err != nil {
		return err
	}
	return set
}

// NearFileLimit reports whether at most one in share of the files that this process may have open is left. It infers that from fd, which was just
// opened: the kernel gives out the lowest free number.
func NearFileLimit(fd, share int) bool {
	limit := FileLimit()
	return fd >= limit-limit/share
}

// FileLimit returns the number of files that this process may have open. At the start of a Go program the runtime has raised it to the maximum that
// the system allows.
func FileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return Unlimited
	}
	return int(min(limit.Cur, Unlimited)) //nolint:gosec // it is cut
}
