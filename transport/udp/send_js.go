package udp

import (
	"errors"
	"syscall"
)

const (
	msgTruncated = 0
	errTruncated = syscall.Errno(0)
	errNoCall    = syscall.Errno(0)
	canTrySend   = false
)

func trySend(int, []byte, syscall.Sockaddr) error { return errors.ErrUnsupported }
