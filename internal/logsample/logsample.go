// Package logsample limits how often one message is logged.
package logsample

import (
	"sync/atomic"
	"time"
)

// every is the shortest time between two records of one message.
const every = 5 * time.Second

// Warning is one message. The zero Warning is due. It may be used concurrently, and must not be copied.
type Warning struct{ said atomic.Int64 } // when it was logged last, in Unix nanoseconds; 0 is never

// Due reports whether the message may be logged now, and counts it as logged: at most once in five seconds.
func (w *Warning) Due(now time.Time) bool {
	last := w.said.Load()
	return (last == 0 || now.UnixNano()-last >= int64(every)) && w.said.CompareAndSwap(last, now.UnixNano())
}
