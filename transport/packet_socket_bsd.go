//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import "syscall"

// noNet is an error of Linux.
const noNet = syscall.ENETUNREACH

// handle is a socket as package syscall wants it.
func handle(fd int) int { return fd }
