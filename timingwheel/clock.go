package timingwheel

import (
	"slices"
	"sync"
	"time"
)

// Clock is the source of time for [Timers]. Its methods are safe for concurrent use, also by the functions that it runs.
type Clock interface {
	// Now returns the present time, which never goes back.
	Now() time.Time
	// AfterFunc sets an alarm that calls f when d has passed, late rather than early. AfterFunc, and Reset of the alarm, never call f
	// themselves, even if d is not positive: f takes locks that the caller of AfterFunc or Reset holds.
	AfterFunc(d time.Duration, f func()) Alarm
}

// Alarm is a pending call of a function, made by AfterFunc of a [Clock]. *time.Timer is an Alarm.
type Alarm interface {
	// Stop keeps the alarm from going off. It does not wait for the function. The result tells whether it was set.
	Stop() bool
	// Reset makes the alarm go off after d, instead of when it would have. The result tells whether it was set.
	Reset(d time.Duration) bool
}

// FakeClock is a [Clock] for tests that stands still until Advance is called. All methods may be called by any goroutine.
//
// A FakeClock fires the same timers at the same times as a real clock, and that includes the tick of [Timers]. A timer of 25 ms fires when 30 ms
// have passed, if the tick is 10 ms and the timer was made when a tick began. A test either advances by one tick more or sets a small tick.
type FakeClock struct {
	advancing sync.Mutex // held by Advance while it runs alarms

	mu sync.Mutex
	// Guarded by mu.
	now    time.Time
	alarms []*fakeAlarm // the alarms that are set, in the order in which they were set
}

// fakeAlarm is one Alarm of a FakeClock. It is set while it is among the clock's alarms.
type fakeAlarm struct {
	clock *FakeClock
	f     func()
	at    time.Time // guarded by the clock's mu
}

// NewFakeClock returns a clock that stands at now.
func NewFakeClock(now time.Time) *FakeClock { return &FakeClock{now: now} }

// Now returns the time at which the clock stands.
func (c *FakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc sets an alarm. Even if d is not positive, f is not called until Advance is.
func (c *FakeClock) AfterFunc(d time.Duration, f func()) Alarm {
	a := &fakeAlarm{clock: c, f: f}
	a.Reset(d)
	return a
}

// Advance moves the clock by d and runs each alarm on the way: the clock shows the alarm's time while its function runs. When Advance returns,
// every timer that was due has fired: timers have sent, and functions of AfterFunc have been started, each in its own goroutine, but may not
// have ended. Advance(0) fires the timers that are due at once. Advance panics if d is negative. A concurrent Advance waits for the first; an
// Advance from inside an alarm would wait for ever.
func (c *FakeClock) Advance(d time.Duration) {
	if d < 0 {
		panic("timingwheel: a clock does not go back")
	}
	c.advancing.Lock()
	defer c.advancing.Unlock()
	end := c.Now().Add(d)
	for f := c.step(end); f != nil; f = c.step(end) {
		f()
	}
}

// step moves the clock to the first alarm that is due by end, removes that alarm from the list and returns its function. If no alarm is due by
// end, step moves the clock to end and returns nil.
func (c *FakeClock) step(end time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.alarms) > 0 {
		first := slices.MinFunc(c.alarms, func(a, b *fakeAlarm) int { return a.at.Compare(b.at) })
		if !first.at.After(end) {
			if first.at.After(c.now) {
				c.now = first.at
			}
			first.clearLocked()
			return first.f
		}
	}
	c.now = end
	return nil
}

func (a *fakeAlarm) Stop() bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clearLocked()
}

func (a *fakeAlarm) Reset(d time.Duration) bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	set := a.clearLocked()
	a.at = a.clock.now.Add(d)
	a.clock.alarms = append(a.clock.alarms, a)
	return set
}

// clearLocked removes the alarm from the clock's list and reports whether it was there.
func (a *fakeAlarm) clearLocked() bool {
	i := slices.Index(a.clock.alarms, a)
	if i < 0 {
		return false
	}
	a.clock.alarms = slices.Delete(a.clock.alarms, i, i+1)
	return true
}
