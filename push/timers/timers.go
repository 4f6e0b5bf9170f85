// Package timers runs many timers of values on one timer of the runtime. It uses a timing wheel, so setting a timer costs the same however many
// there are. While none is set, no timer of the runtime is active.
package timers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

const (
	// tick is how late a timer may fire. With that many slots, one revolution of the wheel takes two seconds.
	tick  = 2 * time.Millisecond
	slots = 1024
)

// Timer is the timer of one value. It must not be copied after it was set.
type Timer[T any] struct {
	value   T
	node    timingwheel.Node[*Timer[T]] // guarded by Scheduler.mu
	expires atomic.Int64                // when it expires, 0 if it is not set; written under Scheduler.mu
}

// NewTimer returns a timer for a value.
func NewTimer[T any](v T) *Timer[T] {
	t := &Timer[T]{value: v}
	t.node.Value = t
	return t
}

// Scheduler runs the timers that are set. All methods may be called concurrently.
type Scheduler[T any] struct {
	source timingwheel.Clock
	start  time.Time
	fire   func(T)

	mu      sync.Mutex // guards the following
	wheel   *timingwheel.Wheel[*Timer[T]]
	timer   timingwheel.Alarm // nil before the first timer is set
	expires int64             // when that timer expires, 0 if it is not set
	due     []*Timer[T]       // scratch memory of onTimer
	closed  bool
}

// New returns a Scheduler that gets the time and its timer from source, or from the system if source is nil. When a timer expires, the Scheduler
// calls fire with the timer's value. fire must neither block nor call the Scheduler.
func New[T any](source timingwheel.Clock, fire func(T)) *Scheduler[T] {
	if source == nil {
		source = system{}
	}
	return &Scheduler[T]{source: source, start: source.Now(), fire: fire, wheel: timingwheel.NewWheel[*Timer[T]](tick, slots)}
}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) timingwheel.Alarm { return time.AfterFunc(d, f) }

// Now returns the time since New, in nanoseconds.
func (s *Scheduler[T]) Now() int64 { return int64(s.source.Now().Sub(s.start)) }

// Set sets a timer to a time, in the scale of Now, unless it is already set to an earlier one. The timer fires up to two milliseconds late,
// and is then no longer set.
func (s *Scheduler[T]) Set(t *Timer[T], at int64) {
	at = max(at, 1)
	if expires := t.expires.Load(); expires != 0 && at >= expires {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if expires := t.expires.Load(); s.closed || expires != 0 && at >= expires {
		return
	}
	t.expires.Store(at)
	s.wheel.Schedule(&t.node, at)
	s.armLocked()
}

// Cancel unsets a timer. If the timer has just expired, fire may still be called.
func (s *Scheduler[T]) Cancel(t *Timer[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wheel.Cancel(&t.node)
	t.expires.Store(0)
}

// armLocked sets the runtime's timer to the earliest time.
func (s *Scheduler[T]) armLocked() {
	at, ok := s.wheel.Next()
	if !ok || s.expires != 0 && at >= s.expires {
		return
	}
	s.expires = max(at, 1)
	d := max(time.Duration(at-s.Now()), 0)
	if s.timer == nil {
		s.timer = s.source.AfterFunc(d, s.onTimer)
		return
	}
	s.timer.Reset(d)
}

// onTimer calls fire for the timers that have expired. Two calls may be due at once, if the runtime's timer is set while it expires.
func (s *Scheduler[T]) onTimer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.expires = 0
	s.wheel.Advance(s.Now(), func(n *timingwheel.Node[*Timer[T]]) {
		n.Value.expires.Store(0)
		s.due = append(s.due, n.Value)
	})
	for _, t := range s.due {
		s.fire(t.value)
	}
	clear(s.due)
	s.due = s.due[:0]
	s.armLocked()
}

// Close stops the Scheduler: fire is not called any more.
func (s *Scheduler[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
