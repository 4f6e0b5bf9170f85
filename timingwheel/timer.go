package timingwheel

import "time"

// timer is the common part of Timer and Ticker.
type timer struct {
	// Set by the constructor. The period is guarded by the mutex of timers.
	timers *Timers
	c      chan time.Time // capacity 1, so that a send never blocks
	f      func()         // called instead of a send to c
	period int64          // in nanoseconds; zero if the timer is not a ticker

	node Node[*timer] // guarded by the mutex of timers
}

// begin schedules a new timer.
func (t *timer) begin(d time.Duration) {
	t.node.Value = t
	t.timers.mu.Lock()
	t.timers.scheduleLocked(t, d)
	t.timers.mu.Unlock()
}

// stop cancels the timer and reports whether it was pending. A value that has not been received is taken back, and the timer then counts as not
// fired.
func (t *timer) stop() bool {
	if t.timers == nil {
		panic("timingwheel: Stop of a timer or ticker that was not made by Timers")
	}
	t.timers.mu.Lock()
	defer t.timers.mu.Unlock()
	return t.stopLocked()
}

func (t *timer) stopLocked() bool {
	stopped := t.timers.wheel.Cancel(&t.node)
	return t.takeBack() || stopped
}

// reset schedules the timer anew and reports whether it was pending.
func (t *timer) reset(d time.Duration) bool {
	if t.timers == nil {
		panic("timingwheel: Reset of a timer or ticker that was not made by Timers")
	}
	t.timers.mu.Lock()
	defer t.timers.mu.Unlock()
	was := t.node.Scheduled() // not cancelled: Schedule often leaves the node in its slot
	was = t.takeBack() || was
	if t.period > 0 {
		t.period = int64(d)
	}
	t.timers.scheduleLocked(t, d)
	return was
}

// takeBack empties the channel and reports whether there was a value. The mutex is held; without it, a new value could follow.
func (t *timer) takeBack() bool {
	select {
	case <-t.c:
		return true
	default:
		return false
	}
}

// Timer is one event in the future, made by NewTimer or AfterFunc of [Timers]. All methods are safe for concurrent use.
type Timer struct {
	// C receives the time when the timer fires. It is nil for a timer made by AfterFunc.
	C <-chan time.Time

	t timer
}

// Stop keeps the timer from firing and reports whether it did. False means that the timer had been stopped before, its value had been received,
// or its function had started. Stop does not wait for the function. As with time.Timer since Go 1.23, a value that was sent before Stop cannot
// be received after Stop has returned. Stop panics if the timer was not made by Timers.
func (t *Timer) Stop() bool { return t.t.stop() }

// Reset makes the timer fire after d, whether or not it has fired or been stopped. It reports whether the timer was still pending, in the sense
// of Stop. After Reset has returned, only a value or a call for the new time can follow. Reset panics if the timer was not made by Timers.
func (t *Timer) Reset(d time.Duration) bool { return t.t.reset(d) }

// Ticker sends the time at regular intervals. It is made by NewTicker of [Timers]. All methods are safe for concurrent use.
type Ticker struct {
	// C receives the time of each tick. If the value of the tick before has not been received, the new tick is dropped.
	C <-chan time.Time

	t timer
}

// Stop ends the ticking. It does not close C. After Stop has returned, no tick can be received. Stop panics if the ticker was not made by
// Timers.
func (t *Ticker) Stop() { t.t.stop() }

// Reset gives the ticker another period. The next tick comes after the new period, and after Reset has returned no older tick can be received. A
// ticker that was stopped starts again. Reset panics if d is not positive or the ticker was not made by Timers.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("timingwheel: Reset with a period that is not positive")
	}
	t.t.reset(d)
}
