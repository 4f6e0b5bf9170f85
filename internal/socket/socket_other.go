//go:build !linux

package socket

import "syscall"

func (o Options) control(string, string, syscall.RawConn) error { return nil }

// Limit is how many files this process may have open.
func Limit() int { return Unlimited }
