//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package udp

import (
	"errors"
	"net"
	"syscall"
)

// These systems are not known well enough, so none of the options works.
const (
	solSocket   = unsupported
	soRcvBuf    = unsupported
	soSndBuf    = unsupported
	soBroadcast = unsupported

	ipTTL             = unsupported
	ipv6UnicastHops   = unsupported
	ipMulticastTTL    = unsupported
	ipv6MulticastHops = unsupported
	ipMulticastLoop   = unsupported
	ipv6MulticastLoop = unsupported
	ipTOS             = unsupported
	ipv6TClass        = unsupported
)

// passingErrors are the errors after which reading goes on.
var passingErrors = [...]syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH}

func setOption(int, int, int, int) error { return errors.ErrUnsupported }

func getOption(int, int, int) (int, error) { return 0, errors.ErrUnsupported }

func setReuseAddress(int) error { return errors.ErrUnsupported }

func setMulticastInterface(int, bool, *net.Interface) error { return errors.ErrUnsupported }

func (membership) set(int) error { return errors.ErrUnsupported }
