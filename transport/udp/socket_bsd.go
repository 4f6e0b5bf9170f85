//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package udp

import "syscall"

// noNet stands for ENONET, which only Linux has.
const noNet = syscall.ENETUNREACH

// handle returns a socket as the type of package syscall.
func handle(fd int) int { return fd }
