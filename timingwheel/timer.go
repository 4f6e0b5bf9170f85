package timingwheel

import "time"

// timer is what a Timer and a Ticker have in common.
type timer struct {
	// Set when made; the period is guarded by the mutex of timers.
	timers *Timers
	c      chan time.Time // has room for one, so that sending never waits
	f      func()         // instead of c
	period int64          // of a ticker

	node Node[*timer] // guarded by the mutex of timers
}

// begin schedules a timer that is new.
func (t *timer) begin(d time.Duration) {
	t.node.Value = t
	t.timers.mu.Lock()
	t.timers.scheduleLocked(t, d)
	t.timers.mu.Unlock()
}

// stop reports whether there was something to stop. A value nobody has received is taken back, and then nothing has happened.
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

// reset schedules a timer anew and reports whether there was something to stop.
func (t *timer) reset(d time.Duration) bool {
	if t.timers == nil {
		panic("timingwheel: Reset of a timer or ticker that was not made by Timers")
	}
	t.timers.mu.Lock()
	defer t.timers.mu.Unlock()
	was := t.node.Scheduled() // where it is it may often stay, so it is not stopped
	was = t.takeBack() || was
	if t.period > 0 {
		t.period = int64(d)
	}
	t.timers.scheduleLocked(t, d)
	return was
}

// takeBack empties the channel and reports whether there was a value. Only under the mutex can no new one follow.
func (t *timer) takeBack() bool {
	select {
	case <-t.c:
		return true
	default:
		return false
	}
}

// Timer is one event in the future, made by NewTimer or AfterFunc of [Timers]. All methods may be called by any goroutine at any time.
type Timer struct {
	// C is where the time is sent when the timer fires; nil for a timer made by AfterFunc.
	C <-chan time.Time

	t timer
}

// Stop keeps the timer from firing and reports whether it did: false means that the timer had been stopped, or that its value was
// received, or its function started, before. It does not wait for the function. As with time.Timer since Go 1.23, after Stop has
// returned nothing that was sent before can be received. It panics when the timer was not made by Timers.
func (t *Timer) Stop() bool { return t.t.stop() }

// Reset makes the timer fire after d, whether or not it has fired or been stopped, and reports whether it was still going to fire, in
// the sense of Stop. After Reset has returned, what can be received, or started, is of the new time only. It panics when the timer was
// not made by Timers.
func (t *Timer) Reset(d time.Duration) bool { return t.t.reset(d) }

// Ticker sends the time again and again, made by NewTicker of [Timers]. All methods may be called by any goroutine at any time.
type Ticker struct {
	// C is where the time is sent. A tick that finds the one before still waiting there is dropped.
	C <-chan time.Time

	t timer
}

// Stop ends the ticking. It does not close C. After Stop has returned no tick can be received. It panics when the ticker was not made
// by Timers.
func (t *Ticker) Stop() { t.t.stop() }

// Reset gives the ticker another period; the next tick comes after the new period. After Reset has returned no older tick can be
// received. A ticker that was stopped starts again. It panics when d is not positive or the ticker was not made by Timers.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("timingwheel: Reset with a period that is not positive")
	}
	t.t.reset(d)
}
