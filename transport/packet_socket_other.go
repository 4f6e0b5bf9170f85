//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package transport

import (
	"errors"
	"net"
	"syscall"
)

// Systems that are not known well enough: none of the options.
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

// passingErrors are those after which reading goes on.
var passingErrors = [...]syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH}

func setPacketOption(int, int, int, int) error { return errors.ErrUnsupported }

func getPacketOption(int, int, int) (int, error) { return 0, errors.ErrUnsupported }

func setReuseAddress(int) error { return errors.ErrUnsupported }

func setMulticastInterface(int, bool, *net.Interface) error { return errors.ErrUnsupported }

func (membership) set(int) error { return errors.ErrUnsupported }
