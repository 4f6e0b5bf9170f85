package pulse

import (
	"syscall"
	"time"
)

// Doze sleeps for less than a millisecond or so, and some 50 µs longer. It keeps a thread, and may be ended early by a signal.
func Doze(d time.Duration) {
	spec := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&spec, nil)
}
