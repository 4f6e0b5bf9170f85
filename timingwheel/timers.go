package timingwheel

import (
	"math"
	"sync"
	"time"
)

// All timers of one Timers are in one wheel under one lock, and one alarm of the clock wakes them: it is set to the wheel's Next
// whenever that comes nearer, and set again when it has gone off. There is no goroutine but the one in which the clock runs the
// alarm, at most one a tick. A timer that is stopped leaves the alarm alone; at worst it goes off once for nothing.
//
// Values are sent under the lock, into channels with room for one, so without waiting. Only so can Stop and Reset know what has
// happened: a value is either still in its channel, whence they take it back, or somebody has received it. Functions are taken off
// the wheel under the lock and started after it; nobody can tell that from a goroutine that takes its time to begin.

// never is an instant that is far enough away for a timer that shall not fire, and comes before the last of int64.
const never = math.MaxInt64 / 2

// Options are the choices of [New]. They are copied. A number that is zero or less means the default.
type Options struct {
	// Tick is how coarse the timers are: they fire at most this much late. The default is 10 ms.
	Tick time.Duration
	// Slots is the number of slots of the wheel, see [NewWheel]. While the next timer is further ahead than Slots times Tick there
	// is one wake-up for each such time. The default is 4096.
	Slots int
	// Clock is where the time comes from. Nil means package time; it is for tests, see [FakeClock]. Inside a bubble of
	// testing/synctest nil is right.
	Clock Clock
}

// Timers makes timers and tickers that behave as those of package time, but are coarse: they never fire early and at most one tick
// late, counted from New, besides what the machine is late. For that, all that is due in one tick costs one wake-up, however many
// they are. A reset costs about what it costs there, much of it for reading the clock; whoever knows the time and needs no lock is
// much quicker with a [Wheel]. What differs from package time otherwise:
//
//   - A channel has room for one value, and len and cap say so.
//   - A timer or ticker that is not stopped stays in memory until it fires or Close is called, even when nobody else refers to it.
//   - A ticker whose period is shorter than the tick ticks once a tick.
//
// As there, a function that panics ends the program.
//
// All methods may be called by any goroutine at any time. Timers must be made by [New].
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

// New makes Timers. It starts nothing: while no timer is scheduled nothing runs and nothing wakes up. Options may be nil.
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

// After returns a channel on which the time is sent once, after d, as time.After does.
func (s *Timers) After(d time.Duration) <-chan time.Time { return s.NewTimer(d).C }

// AfterFunc calls f in a goroutine of its own after d, as time.AfterFunc does. The Timer can stop or repeat it; its C is nil. It
// panics when f is nil.
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

// NewTicker returns a Ticker that sends the time on its channel C each d, as time.NewTicker does, and drops ticks for a slow receiver. It
// panics when d is not positive.
func (s *Timers) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("timingwheel: NewTicker with a period that is not positive")
	}
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, t: timer{timers: s, c: c, period: int64(d)}}
	t.t.begin(d)
	return t
}

// Tick returns the channel of a new Ticker that cannot be stopped but by Close, or nil when d is not positive, as time.Tick does.
func (s *Timers) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return s.NewTicker(d).C
}

// Len returns how many timers and tickers are going to fire.
func (s *Timers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wheel.Len()
}

// Close stops every timer and ticker. When it has returned nothing is sent any more, and nothing becomes due; it does not wait for the
// functions of those that were due before, and may be called by them. Channels are not closed: who waits for one, waits on. Timers
// made or reset after Close never fire. Closing again does nothing.
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
	s.wheel.Advance(math.MaxInt64, func(*Node[*timer]) {}) // lets go of all, so that none that is kept keeps the others
}

// run is what the alarm calls. It may be called too early, too often, by more than one goroutine, and after Close, when there is
// nothing to find.
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
		// Counted from when it should have ticked, so that being late does not add up.
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
		s.wheel.Advance(now, nil) // nobody was awake to tell it the time
	}
	at := int64(0) // long past: no waiting for the next tick
	if d > 0 {
		at = after(now, int64(d))
	}
	s.wheel.Schedule(&t.node, at)
	s.armLocked(now)
}

// armLocked sets the alarm, unless it goes off in time as it is.
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

// now returns the present on the wheel's clock.
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
