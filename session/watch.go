package session

import (
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/roster"
)

// watchTick is how often the watch looks. A cork that it sees twice is pulled.
const watchTick = time.Millisecond

// watch pulls the corks of sessions whose handlers take their time. A session announces itself when the first frame is gathered, in
// a slot of its choice, and leaves when the cork is drawn; so there are as many in the slots as handlers are running, not as
// there are sessions. It looks while slots are being used, or a loop's watchdog has barked, and a hundredth of a second longer.
type watch struct {
	*pulse.Watch
	corked roster.Roster[Session]
	srv    *Server
}

// enter returns the number of the slot in which s is now, or −1.
func (w *watch) enter(s *Session) int {
	slot := w.corked.Enter(s, s.id)
	w.Ensure()
	return slot
}

// quiet dismisses goroutines that were not needed lately, and reports whether there is nothing to be seen before somebody calls Ensure.
func (w *watch) quiet() bool {
	away, routines := w.srv.loops.dismiss(false), w.srv.crew.Dismiss(false)
	return !away && !routines && w.corked.IsEmpty() && !w.srv.loops.busy() && !w.srv.hiring.Waiting() && !w.srv.sockets.busy()
}

// look visits the sessions in the slots and reports whether there was one.
func (w *watch) look() (seen bool) {
	seen = w.srv.loops.look()
	seen = w.srv.lookHiring() || seen
	seen = w.srv.sockets.look() || seen
	for s := range w.corked.All {
		seen = true
		s.watched()
	}
	return seen
}
