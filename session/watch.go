package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/roster"
)

// watchTick is how often the watch looks: at loops four times as often, when it is alert. A cork that it sees twice is pulled.
const watchTick = time.Millisecond

// watchIdle is after how many ticks with nothing to see its goroutine ends. A tick costs some 20 µs, as much as to begin anew: where
// there is a message ten times a second, a hundred ticks after each of them cost a node with 10,000 subscribers 4 % of its CPU.
const watchIdle = 10

// watch pulls the corks of sessions whose handlers take their time. A session announces itself when the first frame is gathered, in
// a slot of its choice, and leaves when the cork is drawn; so there are as many in the slots as handlers are running, not as
// there are sessions. Its goroutine exists while slots are being used, or a loop's watchdog has barked, and a hundredth of a second longer.
type watch struct {
	corked  roster.Roster[Session]
	running atomic.Bool
	stop    chan struct{} // closed when no session is left and none will come
	wg      sync.WaitGroup
	srv     *Server
}

// enter returns the number of the slot in which s is now, or −1.
func (w *watch) enter(s *Session) int {
	slot := w.corked.Enter(s, s.id)
	w.ensure()
	return slot
}

// ensure makes sure that the goroutine exists. It takes no stack when it does: a session's goroutine begins with little more than it needs.
func (w *watch) ensure() {
	if !w.running.Load() {
		w.begin()
	}
}

func (w *watch) begin() {
	if w.running.CompareAndSwap(false, true) {
		w.wg.Go(w.run)
	}
}

func (w *watch) run() {
	rest := pulse.NewRest(watchTick, watchTick/4)
	defer rest.End()
	w.look()
	for idle := 0; ; {
		isTick := rest.For(w.srv.loops.alert(w.srv.clock()))
		if w.stopped() {
			return
		}
		if !isTick {
			w.srv.loops.look()
			continue
		}
		if idle++; w.look() {
			idle = 0
		}
		if idle < watchIdle {
			continue
		}
		// A session that enters now either sees that nobody is running, or is seen; as does a goroutine that comes to rest.
		w.running.Store(false)
		idle = 0
		away, routines := w.srv.loops.dismiss(false), w.srv.crew.Dismiss(false)
		if !away && !routines && w.corked.IsEmpty() && !w.srv.loops.busy() && !w.srv.hiring.Waiting() && !w.srv.sockets.busy() || !w.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// stopped reports whether no session is left and none will come.
func (w *watch) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
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
