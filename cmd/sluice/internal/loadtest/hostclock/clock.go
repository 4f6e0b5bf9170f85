// Package hostclock has a clock that all processes of a host share, and a sleep that is more exact than a timer.
package hostclock

import (
	"context"
	"time"
)

// Now returns the time of this host in nanoseconds. All processes of a host share the clock, so a process can compare its time with a timestamp of
// another. The clock does not jump when the time of day is set. On Linux it is CLOCK_MONOTONIC. On other systems it is the time of day at the
// start of the process, plus the monotonic time since then. Now may be called concurrently.
func Now() int64 { return began.at + int64(time.Since(began.when)) }

// began holds the readings of both clocks at the start of this process.
var began = func() (b struct {
	when time.Time
	at   int64
},
) {
	b.when, b.at = time.Now(), hostClock()
	return b
}()

// A timer of the runtime may fire a millisecond late in an idle process, so SleepUntil sleeps the last part with Nap.
const (
	timerUntil = 2 * time.Millisecond    // SleepUntil uses a timer if more than this is left
	timerSlack = 1500 * time.Microsecond // how much earlier that timer fires
)

// SleepUntil sleeps until a time of Now. It reports false if the context ended first.
func SleepUntil(ctx context.Context, at int64) bool {
	for {
		left := time.Duration(at - Now())
		switch {
		case ctx.Err() != nil:
			return false
		case left <= 0:
			return true
		case left <= timerUntil:
			Nap(left)
			continue
		}
		timer := time.NewTimer(left - timerSlack)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
