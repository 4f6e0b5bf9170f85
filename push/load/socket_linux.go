package load

import (
	"os"
	"syscall"
)

// ipBindAddressNoPort is IP_BIND_ADDRESS_NO_PORT of linux/in.h: the port is chosen when the connection is made, when it is known that only
// the four addresses together have to be unlike all others.
const ipBindAddressNoPort = 24

// socketOptions returns what is set on a socket before it connects: the size of its receive buffer, unless that is 0, and that it is bound
// to an address without a port.
func socketOptions(buffer int, bound bool) func(network, address string, c syscall.RawConn) error {
	if buffer == 0 && !bound {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) {
			if buffer > 0 {
				set = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer))
			}
			if bound && set == nil {
				set = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1))
			}
		})
		if err != nil {
			return err
		}
		return set
	}
}

// descriptors is how many files this process may have open. Programs in Go have raised that to what the system allows when they begin.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	return int(min(limit.Cur, unlimited)) //nolint:gosec // it is cut
}
