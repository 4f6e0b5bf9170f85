package hub

import (
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/timingwheel"
)

const (
	// alarmTick is how late an alarm may be, alarmSlots make a round of the wheel: two seconds.
	alarmTick  = 2 * time.Millisecond
	alarmSlots = 1024
)

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) timingwheel.Alarm {
	return time.AfterFunc(d, f)
}

// alarms wake sessions at the times that their pacers say. There is one timer for all, and none while no alarm is set.
type alarms struct {
	source  timingwheel.Clock
	start   time.Time
	workers *workers

	mu     sync.Mutex // guards what follows; it is taken with a session's lock held
	wheel  *timingwheel.Wheel[*Session]
	timer  timingwheel.Alarm // nil before the first alarm
	rings  int64             // when the timer goes off, or pace.Never
	due    []*Session        // memory of ring
	closed bool
}

func newAlarms(c timingwheel.Clock, w *workers) *alarms {
	return &alarms{
		source: c, start: c.Now(), workers: w, wheel: timingwheel.NewWheel[*Session](alarmTick, alarmSlots), rings: pace.Never,
	}
}

// now returns the time since the hub began, in nanoseconds.
func (a *alarms) now() int64 { return int64(a.source.Now().Sub(a.start)) }

// set has a session woken at a time, unless it is woken before. When it is, it looks again.
func (a *alarms) set(p *paced, at int64) {
	if at >= p.rings.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || at >= p.rings.Load() {
		return
	}
	p.rings.Store(at)
	a.wheel.Schedule(&p.alarm, at)
	a.armLocked()
}

// cancel takes a session's alarm back.
func (a *alarms) cancel(p *paced) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wheel.Cancel(&p.alarm)
	p.rings.Store(pace.Never)
}

// armLocked sets the timer by the first alarm.
func (a *alarms) armLocked() {
	at, ok := a.wheel.Next()
	if !ok || at >= a.rings {
		return
	}
	a.rings = at
	d := max(time.Duration(at-a.now()), 0)
	if a.timer == nil {
		a.timer = a.source.AfterFunc(d, a.ring)
		return
	}
	a.timer.Reset(d)
}

// ring wakes those whose time has come. Two timers may go off at once, when one is set while the other does.
func (a *alarms) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.rings = pace.Never
	a.wheel.Advance(a.now(), func(n *timingwheel.Node[*Session]) {
		n.Value.paced.rings.Store(pace.Never)
		a.due = append(a.due, n.Value)
	})
	for _, s := range a.due {
		s.dirty.Store(true)
		a.workers.later(s)
	}
	clear(a.due)
	a.due = a.due[:0]
	a.armLocked()
}

// close wakes nobody any more.
func (a *alarms) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
