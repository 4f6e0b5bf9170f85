package eventloop

import (
	"math"
	"sync/atomic"
	"time"
)

// Watchdog calls a function when a goroutine that works has not checked in for some time. While the goroutine checks in it costs next to nothing,
// unlike a goroutine that looks again and again.
type Watchdog struct {
	timer   *timerfd
	timeout time.Duration
	set     atomic.Int64 // when the timer was set last
	fired   atomic.Bool
}

// never is long before any time.
const never = math.MinInt64 / 2

// NewWatchdog returns a Watchdog that fires after timeout to one and a half timeouts without Reset. It takes a descriptor, and fails if there is
// none.
func NewWatchdog(timeout time.Duration) (*Watchdog, error) {
	t, err := newTimerfd()
	if err != nil {
		return nil, err
	}
	w := &Watchdog{timer: t, timeout: timeout}
	w.set.Store(never)
	return w, nil
}

// Reset checks in: the goroutine makes progress. Several goroutines may call it, before Close. Now is in nanoseconds of a monotonic clock.
func (w *Watchdog) Reset(now int64) {
	if now-w.set.Load() >= int64(w.timeout) {
		w.set.Store(now)
		w.timer.set(w.timeout * 3 / 2) // 2 µs
	}
}

// Run calls fire when time is up, unless idle reports that the goroutine has nothing to do. It returns after Close. A goroutine that was idle calls
// Reset before it works.
func (w *Watchdog) Run(idle func() bool, fire func()) {
	for w.timer.wait() == nil {
		// The order matters: a goroutine that begins to work meanwhile either finds the timer not set, or is not idle.
		if w.set.Store(never); !idle() {
			w.fired.Store(true)
			fire()
		}
	}
}

// Fired reports whether it has fired since Clear.
func (w *Watchdog) Fired() bool { return w.fired.Load() }

// Clear forgets that it has fired, and reports whether it had.
func (w *Watchdog) Clear() bool { return w.fired.Load() && w.fired.Swap(false) }

// Close gives the descriptor back, and ends Run.
func (w *Watchdog) Close() error { return w.timer.file.Close() }
