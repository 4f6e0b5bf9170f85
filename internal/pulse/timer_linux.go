package pulse

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// timer is timerfd_create(2)'s, and waits in the runtime's poller.
type timer struct {
	file *os.File
	fd   uintptr
}

// clockMonotonic is CLOCK_MONOTONIC: clock_gettime(2).
const clockMonotonic = 1

func newTimer() (*timer, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &timer{os.NewFile(fd, "timer"), fd}, nil
}

// set has it go off, once. There is no reason for which it could fail.
func (t *timer) set(after time.Duration) {
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(after))} // struct itimerspec
	_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, t.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (t *timer) wait() error {
	var beats [8]byte
	_, err := t.file.Read(beats[:])
	return err
}
