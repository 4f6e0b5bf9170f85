package session

import (
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/roster"
)

const (
	watchTick    = time.Millisecond // how often the watch looks; a cork that it sees twice is pulled
	dismissEvery = time.Second      // at least, while there is something to see
)

// watch pulls the corks of sessions whose handlers take their time. A session announces itself when the first frame is gathered, in
// a slot of its choice, and leaves when the cork is drawn; so there are as many in the slots as handlers are running, not as
// there are sessions. It looks while slots are being used, or a loop's watchdog has barked, and a hundredth of a second longer.
type watch struct {
	*pulse.Watch
	corked    roster.Roster[Session]
	dismissed atomic.Int64 // when goroutines were last dismissed
	srv       *Server
}

// enter returns the number of the slot in which s is now, or −1.
func (w *watch) enter(s *Session) int {
	slot := w.corked.Enter(s, s.id)
	w.Ensure()
	return slot
}

// dismiss ends goroutines that were not needed since it was called the last time, and reports whether there are others.
func (w *watch) dismiss() (others bool) {
	w.dismissed.Store(w.srv.clock())
	away, routines := w.srv.loops.dismiss(false), w.srv.crew.Dismiss(false)
	return away || routines
}

// quiet reports whether there is nothing to be seen before somebody calls Ensure.
func (w *watch) quiet() bool {
	return !w.dismiss() && w.corked.IsEmpty() && !w.srv.loops.busy() && !w.srv.hiring.Waiting() && !w.srv.sockets.busy()
}

// look visits the sessions in the slots and reports whether there was one.
func (w *watch) look() (seen bool) {
	if w.srv.clock()-w.dismissed.Load() >= int64(dismissEvery) {
		w.dismiss()
	}
	seen = w.srv.loops.look()
	seen = w.srv.lookHiring() || seen
	seen = w.srv.sockets.look() || seen
	for s := range w.corked.All {
		seen = true
		s.watched()
	}
	return seen
}
