package session

import (
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
)

const (
	watchdogTick = time.Millisecond // interval of the ticks; a cork that is seen in two ticks is pulled
	trimEvery    = time.Second      // how often idle spare goroutines are ended, at least, while it ticks
)

// watchdog checks every millisecond for slow work: corks, dispatches of loops and datagram sockets, the task queue. Its goroutine exists only
// while there is something to check, and ten milliseconds longer. A session enters the set of corked ones with its first corked frame, and
// leaves it when the cork is pulled. So the set has as many members as handlers are running.
type watchdog struct {
	*eventloop.Ticker
	corked  activeSet[Session]
	trimmed atomic.Int64 // when spare goroutines were last ended
	srv     *Server
}

// enter adds s to the set of corked sessions. It returns the number of its slot, or -1 if there is none.
func (w *watchdog) enter(s *Session) int {
	slot := w.corked.Add(s, s.id)
	w.Start()
	return slot
}

// trim ends spare goroutines that were not needed since the last call, and reports whether there are others.
func (w *watchdog) trim() (others bool) {
	w.trimmed.Store(w.srv.clock())
	loops, goroutines := w.srv.loops.trim(false), w.srv.spare.TrimIdle(false)
	return loops || goroutines
}

// idle reports whether there is nothing to check until Start is called.
func (w *watchdog) idle() bool {
	return !w.trim() && w.corked.IsEmpty() && !w.srv.loops.busy() && !w.srv.tasks.Waiting() && !w.srv.sockets.IsBusy()
}

// tick checks everything once, and reports whether there was something to check.
func (w *watchdog) tick() (seen bool) {
	if w.srv.clock()-w.trimmed.Load() >= int64(trimEvery) {
		w.trim()
	}
	seen = w.srv.loops.checkStalls()
	seen = w.srv.tickTasks() || seen
	seen = w.srv.sockets.Tick() || seen
	for s := range w.corked.All {
		seen = true
		s.out.CorkTick()
	}
	return seen
}
