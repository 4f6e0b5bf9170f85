package eventloop

import "time"

const (
	yieldEvery  = 8 * time.Millisecond // less than the 10 ms after which the runtime preempts
	yieldRarely = 30 * time.Second     // if each yield costs a long wait
	yieldQuick  = 2 * time.Millisecond // a longer wait is long
	yieldGrowth = 8
)

// YieldTimer says when a goroutine that seldom calls the scheduler should call runtime.Gosched. If it does not for 10 ms it is preempted, and the
// runtime's monitor looks at it every 20 µs for a while, which costs a thirtieth of an idle processor. If other goroutines compute, each
// yield waits for them, so yields become rare. It belongs to one goroutine. Times are nanoseconds of a monotonic clock. The zero
// value begins with a yield.
type YieldTimer struct {
	every time.Duration
	last  int64
}

// Due reports whether the goroutine should yield.
func (y *YieldTimer) Due(now int64) bool { return now-y.last >= int64(y.every) }

// Soon reports whether a yield is due before long. It is best made while there is nothing else to do.
func (y *YieldTimer) Soon(now int64) bool { return now-y.last >= int64(y.every)*3/4 }

// Parked records that the goroutine has waited in the runtime, which is as good as a yield.
func (y *YieldTimer) Parked(now int64) { y.last = now }

// Yielded records when a yield began and ended.
func (y *YieldTimer) Yielded(began, now int64) {
	y.last = now
	if now-began < int64(yieldQuick) {
		y.every = yieldEvery
	} else {
		y.every = min(max(y.every, yieldEvery)*yieldGrowth, yieldRarely)
	}
}
