//go:build !linux

package load

import "syscall"

// socketOptions is for Linux; elsewhere sockets stay as the system makes them.
func socketOptions(int, bool) func(network, address string, c syscall.RawConn) error { return nil }

func descriptors() int { return unlimited }
