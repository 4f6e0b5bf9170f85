package pulse

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleLooks is after how many looks with nothing to see a watch may end. A look costs some 20 µs, as much as to begin anew: where there is a
// message ten times a second, a hundred looks after each of them cost a node with 10,000 subscribers 4 % of its CPU.
const idleLooks = 10

// Watch looks at something again and again while there is something to see, with a goroutine that exists only then, and a little longer.
// Its methods may be called concurrently.
type Watch struct {
	every time.Duration
	look  func() (seen bool)
	quiet func() bool

	running atomic.Bool
	over    atomic.Bool
	work    sync.WaitGroup
}

// NewWatch returns one that has no goroutine yet. It calls look, which reports whether there was something to see, and quiet when there was
// nothing for a while: whether nothing is to be expected either. What comes after that has to call Ensure. Look is called by one goroutine
// at a time; both must not call End.
func NewWatch(every time.Duration, look, quiet func() bool) *Watch {
	return &Watch{every: every, look: look, quiet: quiet}
}

// Ensure makes sure that somebody looks, from now on, until all is quiet. It takes no stack when somebody does.
func (w *Watch) Ensure() {
	if !w.running.Load() {
		w.begin()
	}
}

func (w *Watch) begin() {
	if w.hold() {
		w.work.Go(w.run)
	}
}

// hold keeps a goroutine from beginning if there is none, and reports whether that is so.
func (w *Watch) hold() bool { return w.running.CompareAndSwap(false, true) }

// Running reports whether there is one.
func (w *Watch) Running() bool { return w.running.Load() }

func (w *Watch) run() {
	w.look()
	for idle := 0; ; {
		time.Sleep(w.every) // which wakes fewer threads than a Ticker
		if w.over.Load() {
			return
		}
		if idle++; w.look() {
			idle = 0
		}
		if idle < idleLooks {
			continue
		}
		// What comes now either sees that nobody is running, or is seen.
		w.running.Store(false)
		idle = 0
		if w.quiet() || !w.hold() {
			return
		}
	}
}

// End has the goroutine end: there will be nothing to see any more.
func (w *Watch) End() { w.over.Store(true) }

// Wait waits until it has. Nobody may call Ensure meanwhile.
func (w *Watch) Wait() { w.work.Wait() }
