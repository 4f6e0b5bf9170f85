//go:build unix

package workerpool_test

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used. Unlike the elapsed time it does not grow if other processes run.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
