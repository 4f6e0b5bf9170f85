//go:build !linux

package hostclock

import "time"

func hostClock() int64 { return time.Now().UnixNano() }

// Nap sleeps for a short time. It cannot be woken.
func Nap(d time.Duration) { time.Sleep(d) }
