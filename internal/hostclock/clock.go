// Package hostclock is a clock that all processes of a host share, and a sleep that is exact.
package hostclock

import "time"

// Now is the time of this host in nanoseconds. It is the same in all processes of a host, so that one process can stamp what another
// receives, and it does not jump when the time is set: on Linux it is CLOCK_MONOTONIC, elsewhere the time of day when the process began,
// and from there on as the process counts. It may be called concurrently.
func Now() int64 { return began.at + int64(time.Since(began.when)) }

// began is when this process looked at both clocks.
var began = func() (b struct {
	when time.Time
	at   int64
},
) {
	b.when, b.at = time.Now(), hostClock()
	return b
}()
