package pulse

import (
	"math"
	"sync/atomic"
	"time"
)

// Watchdog calls somebody when a goroutine at work has not said for some time that it gets on. Unlike one who looks again and again it costs
// next to nothing as long as it has.
type Watchdog struct {
	timer    *timer
	patience time.Duration
	set      atomic.Int64 // when it was set the last time
	barked   atomic.Bool
}

// never is long before anything.
const never = math.MinInt64 / 2

// NewWatchdog makes one that waits for as long as it is patient, which has to be more than a few microseconds, or half as long again. It takes
// a descriptor, and fails where there is none.
func NewWatchdog(patience time.Duration) (*Watchdog, error) {
	t, err := newTimer()
	if err != nil {
		return nil, err
	}
	w := &Watchdog{timer: t, patience: patience}
	w.set.Store(never)
	return w, nil
}

// Alive says that the goroutine gets on. It may be called by several at once, before Close. Now is in nanoseconds of any clock that does not go
// back.
func (w *Watchdog) Alive(now int64) {
	if now-w.set.Load() >= int64(w.patience) {
		w.set.Store(now)
		w.timer.set(w.patience * 3 / 2) // 2 µs
	}
}

// Run calls bark when time is up, unless the goroutine rests, until the watchdog is closed. Who has rested calls Alive before it works.
func (w *Watchdog) Run(rests func() bool, bark func()) {
	for w.timer.wait() == nil {
		// Before the question: who begins to work meanwhile either sees that the timer is not set, or does not rest.
		if w.set.Store(never); !rests() {
			w.barked.Store(true)
			bark()
		}
	}
}

// Barked reports whether it has barked since it was told to be quiet.
func (w *Watchdog) Barked() bool { return w.barked.Load() }

// Quiet tells it to be quiet, and reports whether it had barked.
func (w *Watchdog) Quiet() bool { return w.barked.Load() && w.barked.Swap(false) }

// Close gives the descriptor back, and has Run return.
func (w *Watchdog) Close() error { return w.timer.file.Close() }
