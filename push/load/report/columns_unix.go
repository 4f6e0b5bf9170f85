//go:build linux || darwin

package report

import (
	"os"
	"syscall"
	"unsafe"
)

// columns asks a terminal for its width, which may be 0, and whether it is one; ioctl_tty(2). The structure is the kernel's winsize.
func columns(f *os.File) (n int, terminal bool) {
	var size struct{ rows, columns, width, height uint16 }
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	errno := syscall.EBADF
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	})
	return int(size.columns), err == nil && errno == 0
}
