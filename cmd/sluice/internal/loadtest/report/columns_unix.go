//go:build linux || darwin

package report

import (
	"os"
	"syscall"
	"unsafe"
)

// columns returns the width of a terminal, which may be 0, and whether f is one. It uses TIOCGWINSZ (ioctl_tty(2)), which fills in a struct
// winsize.
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
