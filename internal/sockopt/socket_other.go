//go:build !linux

package sockopt

import (
	"errors"
	"syscall"
)

func (o Options) control(string, string, syscall.RawConn) error { return nil }

// FileLimit returns the number of files that this process may have open, which is unknown here.
func FileLimit() int { return Unlimited }

// DuplicateConn works on Linux only.
func DuplicateConn(syscall.RawConn) (int, error) { return -1, errors.ErrUnsupported }
