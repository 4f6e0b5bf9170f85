package pulse

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Pulse beats until it is closed. It belongs to one goroutine.
type Pulse struct{ timer *os.File }

// clockMonotonic is CLOCK_MONOTONIC: clock_gettime(2).
const clockMonotonic = 1

// New makes one that beats every so often, for the first time after so long. It takes a descriptor, and fails where there is none, or
// where the interval is not positive.
func New(every time.Duration) (*Pulse, error) {
	if every <= 0 {
		return nil, syscall.EINVAL
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	t := os.NewFile(fd, "timer")
	at := syscall.NsecToTimespec(int64(every))
	spec := [2]syscall.Timespec{at, at} // struct itimerspec: the interval, and the first time
	_, _, errno = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		_ = t.Close()
		return nil, os.NewSyscallError("timerfd_settime", errno)
	}
	return &Pulse{t}, nil
}

// Wait waits for the next beat. It returns at once if there was one since the last time; several count as one.
func (p *Pulse) Wait() error {
	var beats [8]byte
	_, err := p.timer.Read(beats[:])
	return err
}

// Close gives the descriptor back.
func (p *Pulse) Close() error { return p.timer.Close() }
