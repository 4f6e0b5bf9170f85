//go:build !linux

package load

import "time"

func hostClock() int64 { return time.Now().UnixNano() }

// nap sleeps for a short time. It cannot be woken.
func nap(d time.Duration) { time.Sleep(d) }
