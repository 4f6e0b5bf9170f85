// Package alarm wakes many values, each at a time of its own, with one timer: by a timing wheel, so that setting an alarm costs the same
// however many there are. While no alarm is set there is no timer.
package alarm

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

const (
	// tick is how late an alarm may be, slots make a round of the wheel: two seconds.
	tick  = 2 * time.Millisecond
	slots = 1024
)

// Alarm is what a value has to be woken by. It must not be copied once it was set.
type Alarm[T any] struct {
	value T
	node  timingwheel.Node[*Alarm[T]] // guarded by Clock.mu
	rings atomic.Int64                // when it goes off, 0 when it is not set; written under Clock.mu
}

// Of returns the alarm of a value.
func Of[T any](v T) *Alarm[T] {
	a := &Alarm[T]{value: v}
	a.node.Value = a
	return a
}

// Clock holds the alarms that are set. Its methods may be called concurrently.
type Clock[T any] struct {
	source timingwheel.Clock
	start  time.Time
	wake   func(T)

	mu     sync.Mutex // guards what follows
	wheel  *timingwheel.Wheel[*Alarm[T]]
	timer  timingwheel.Alarm // nil before the first alarm
	rings  int64             // when the timer goes off, 0 when it does not
	due    []*Alarm[T]       // memory of ring
	closed bool
}

// New returns a clock that goes by another, nil for the system's, and wakes values by calling wake, which must neither block nor call the
// clock.
func New[T any](source timingwheel.Clock, wake func(T)) *Clock[T] {
	if source == nil {
		source = system{}
	}
	return &Clock[T]{source: source, start: source.Now(), wake: wake, wheel: timingwheel.NewWheel[*Alarm[T]](tick, slots)}
}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) timingwheel.Alarm { return time.AfterFunc(d, f) }

// Now returns the time since New, in nanoseconds.
func (c *Clock[T]) Now() int64 { return int64(c.source.Now().Sub(c.start)) }

// Set has a value woken at a time, by the measure of Now, up to two milliseconds late, unless it is to be woken before. Once it is woken
// its alarm is no longer set.
func (c *Clock[T]) Set(a *Alarm[T], at int64) {
	at = max(at, 1)
	if rings := a.rings.Load(); rings != 0 && at >= rings {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if rings := a.rings.Load(); c.closed || rings != 0 && at >= rings {
		return
	}
	a.rings.Store(at)
	c.wheel.Schedule(&a.node, at)
	c.armLocked()
}

// Cancel takes an alarm back. A value may just be woken.
func (c *Clock[T]) Cancel(a *Alarm[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wheel.Cancel(&a.node)
	a.rings.Store(0)
}

// armLocked sets the timer by the first alarm.
func (c *Clock[T]) armLocked() {
	at, ok := c.wheel.Next()
	if !ok || c.rings != 0 && at >= c.rings {
		return
	}
	c.rings = max(at, 1)
	d := max(time.Duration(at-c.Now()), 0)
	if c.timer == nil {
		c.timer = c.source.AfterFunc(d, c.ring)
		return
	}
	c.timer.Reset(d)
}

// ring wakes those whose time has come. Two timers may go off at once, when one is set while the other does.
func (c *Clock[T]) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.rings = 0
	c.wheel.Advance(c.Now(), func(n *timingwheel.Node[*Alarm[T]]) {
		n.Value.rings.Store(0)
		c.due = append(c.due, n.Value)
	})
	for _, a := range c.due {
		c.wake(a.value)
	}
	clear(c.due)
	c.due = c.due[:0]
	c.armLocked()
}

// Close wakes nobody any more.
func (c *Clock[T]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
