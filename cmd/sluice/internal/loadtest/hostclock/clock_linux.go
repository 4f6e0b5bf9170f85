package hostclock

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC of linux/time.h.
const clockMonotonic = 1

// hostClock reads CLOCK_MONOTONIC, which all processes share. It is called once.
func hostClock() int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}

// Nap sleeps for a short time, more exactly than a timer, which may be a millisecond late when nothing else happens. It cannot be woken.
func Nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // a signal may end it early; the callers read the clock again
}
