// Package seldom keeps what happens often from being logged as often.
package seldom

import (
	"sync/atomic"
	"time"
)

// every is the shortest time between two warnings of one kind.
const every = 5 * time.Second

// Warning is one kind of warning. The zero Warning is due. It may be used concurrently, and must not be copied.
type Warning struct{ said atomic.Int64 } // when it was last said, in Unix nanoseconds; 0: never

// Due reports whether it may be said at a time, which it takes as done: at most once in five seconds.
func (w *Warning) Due(now time.Time) bool {
	last := w.said.Load()
	return (last == 0 || now.UnixNano()-last >= int64(every)) && w.said.CompareAndSwap(last, now.UnixNano())
}
