//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

func (o Options) control(string, string, syscall.RawConn) error { return nil }

// Limit is how many files this process may have open.
func Limit() int { return Unlimited }

// DuplicateUnder is for Linux.
func DuplicateUnder(syscall.RawConn) (int, error) { return -1, errors.ErrUnsupported }
