package timingwheel

import (
	"math"
	"sync"
	"time"
)

// All timers of one Timers are in one wheel under one lock, and one alarm of the clock wakes them. The alarm is set to the wheel's Next whenever
// Next comes nearer, and set again when it has gone off. The only goroutine is the one in which the clock runs the alarm, at most one a tick.
// Stopping a timer leaves the alarm alone: at worst the alarm goes off once for nothing.
//
// Values are sent under the lock, into channels with capacity 1, so a send does not block. Only then can Stop and Reset tell what has happened:
// a value is either still in its channel, from which they take it back, or it has been received. Functions are taken off the wheel under the
// lock and started after it is released. A caller cannot tell that from a goroutine that is slow to begin.

// never is the instant of a timer that shall not fire: 146 years after New, and still far below the largest int64.
const never = math.MaxInt64 / 2

// Options are the settings of [New], which copies them. A number that is zero or less means the default.
type Options struct {
	// Tick is the resolution of the timers: they fire at most this much late. The default is 10 ms.
	Tick time.Duration
	// Slots is the number of slots of the wheel, see [NewWheel]. If the next timer is further ahead than Slots times Tick, there is one wake-up
	// for each such time. The default is 4096.
	Slots int
	// Clock is the source of time, for tests: see [FakeClock]. Nil means package time, which is also right inside a bubble of testing/synctest.
	Clock Clock
}

// Timers makes timers and tickers that behave as those of package time, but are coarse. They never fire early, and at most one tick late,
// counted from New, besides the delays of the machine. In return, all timers that are due in one tick cost one wake-up together. A reset costs
// about as much as in package time, mostly for reading the clock. If the caller knows the time and needs no lock, a [Wheel] is much quicker.
// Other differences from package time:
//
//   - A channel has capacity 1, which len and cap show.
//   - A timer or ticker that is not stopped stays in memory until it fires or Close is called, even if the program drops all references.
//   - A ticker whose period is shorter than the tick ticks once a tick.
//
// As in package time, a function that panics ends the program.
//
// All methods are safe for concurrent use. Timers must be made by [New].
type Timers struct {
	// Set by New.
	clock Clock // nil: package time
	start time.Time

	mu sync.Mutex
	// Guarded by mu.
	wheel  *Wheel[*timer]
	alarm  Alarm // nil until it is first set
	armed  int64 // when the alarm goes off; math.MaxInt64 when it is not set
	closed bool
}

// New makes Timers with options o, which may be nil. While no timer is scheduled, no goroutine runs and nothing wakes up.
func New(o *Options) *Timers {
	if o == nil {
		o = &Options{}
	}
	s := &Timers{clock: o.Clock, wheel: NewWheel[*timer](o.Tick, o.Slots), armed: math.MaxInt64}
	if s.clock == nil {
		s.start = time.Now()
	} else {
		s.start = s.clock.Now()
	}
	return s
}

// After returns a channel that receives the time once, after d, as time.After does.
func (s *Timers) After(d time.Duration) <-chan time.Time { return s.NewTimer(d).C }

// AfterFunc calls f in its own goroutine after d, as time.AfterFunc does. The Timer can stop or repeat the call; its C is nil. AfterFunc panics
// if f is nil.
func (s *Timers) AfterFunc(d time.Duration, f func()) *Timer {
	if f == nil {
		panic("timingwheel: AfterFunc without a function")
	}
	t := &Timer{t: timer{timers: s, f: f}}
	t.t.begin(d)
	return t
}

// NewTimer returns a Timer that sends the time on its channel C once, after d, as time.NewTimer does.
func (s *Timers) NewTimer(d time.Duration) *Timer {
	c := make(chan time.Time, 1)
	t := &Timer{C: c, t: timer{timers: s, c: c}}
	t.t.begin(d)
	return t
}

// NewTicker returns a Ticker that sends the time on its channel C every d, as time.NewTicker does, and drops ticks for a slow receiver.
// NewTicker panics if d is not positive.
func (s *Timers) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("timingwheel: NewTicker with a period that is not positive")
	}
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, t: timer{timers: s, c: c, period: int64(d)}}
	t.t.begin(d)
	return t
}

// Tick returns the channel of a new Ticker, or nil if d is not positive, as time.Tick does. Only Close stops that Ticker.
func (s *Timers) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return s.NewTicker(d).C
}

// Len returns the number of pending timers and tickers.
func (s *Timers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wheel.Len()
}

// Close stops every timer and ticker. After it has returned, no value is sent and no function becomes due. Close does not wait for functions
// that were due before, and may be called by them. Channels are not closed, so a goroutine that waits for one waits on. Timers that are made or
// reset after Close never fire. Closing again does nothing.
func (s *Timers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.wheel.Advance(math.MaxInt64, func(*Node[*timer]) {}) // unlinks all, so that one referenced timer does not keep the others
}

// run fires the timers that are due; the alarm calls it. A call may come too early, too often, from more than one goroutine, and after Close.
// Such a call finds nothing to do.
func (s *Timers) run() {
	s.mu.Lock()
	var present time.Time
	if s.clock == nil {
		present = time.Now()
	} else {
		present = s.clock.Now()
	}
	now := int64(present.Sub(s.start))
	var functions []func()
	s.armed = math.MaxInt64
	s.wheel.Advance(now, func(n *Node[*timer]) {
		if t := n.Value; t.f != nil {
			functions = append(functions, t.f)
		} else {
			s.sendLocked(t, present, now)
		}
	})
	s.armLocked(now)
	s.mu.Unlock()
	for _, f := range functions {
		go f()
	}
}

// sendLocked sends the present to a timer with a channel, and schedules it again if it ticks.
func (s *Timers) sendLocked(t *timer, present time.Time, now int64) {
	if t.period > 0 {
		// The next tick counts from the time at which this one should have come, so that delays do not add up.
		late := now - t.node.At()
		s.wheel.Schedule(&t.node, after(now, t.period-late%t.period))
	}
	select {
	case t.c <- present:
	default:
	}
}

// scheduleLocked puts t into the wheel.
func (s *Timers) scheduleLocked(t *timer, d time.Duration) {
	if s.closed {
		return
	}
	now := s.now()
	if s.wheel.Len() == 0 {
		s.wheel.Advance(now, nil) // the alarm was not set, so the wheel has not been told the time
	}
	at := int64(0) // long past, so that the timer does not wait for the next tick
	if d > 0 {
		at = after(now, int64(d))
	}
	s.wheel.Schedule(&t.node, at)
	s.armLocked(now)
}

// armLocked sets the alarm to the wheel's Next, unless it is set to go off by then.
func (s *Timers) armLocked(now int64) {
	next, ok := s.wheel.Next()
	if !ok || next >= s.armed {
		return
	}
	s.armed = next
	d := time.Duration(max(0, next-now))
	switch {
	case s.alarm != nil:
		s.alarm.Reset(d)
	case s.clock != nil:
		s.alarm = s.clock.AfterFunc(d, s.run)
	default:
		s.alarm = time.AfterFunc(d, s.run)
	}
}

// now returns the present time on the wheel's clock.
func (s *Timers) now() int64 {
	if s.clock == nil {
		return int64(time.Since(s.start)) // cheaper than time.Now
	}
	return int64(s.clock.Now().Sub(s.start))
}

// after returns now + d, or never.
func after(now, d int64) int64 {
	if d > never-now {
		return never
	}
	return now + d
}
