//go:build unix

package workerpool_test

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used. Unlike the time on the wall it is not longer when other processes run.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
