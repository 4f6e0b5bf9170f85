package session

import (
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/crew"
	"github.com/sluice-push/sluice/internal/hangup"
	"github.com/sluice-push/sluice/internal/late"
	"github.com/sluice-push/sluice/internal/slowness"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/internal/tlsconn"
	"github.com/sluice-push/sluice/transport"
)

// loops are the event loops of a server. They are made when the first session needs one.
type loops struct {
	all  atomic.Pointer[[]*loop]
	next atomic.Uint32

	making  sync.Mutex
	stopped bool // guarded by making

	slow     slowness.All // when all sessions are slow
	fewUntil atomic.Int64 // nobody stays until then, for want of descriptors

	crew    *crew.Crew[away] // made with all: takes turns of sessions whose handlers block, which stay there; dismissed by the watch
	secrets tlsconn.Shared
	peers   hangup.Watch // of sessions with goroutines

	zeroMu   sync.Mutex
	zero     map[*Session]*buffer.Reports // guarded by zeroMu: of sessions that have sent without copying
	zeroKeep bool                         // set by tests: it is not given up for connections whose kernel copies

	addresses socket.Addresses
}

// away is a turn that is not the driver's.
type away struct {
	s *Session
	t turn
}

// seat gives s a place in a loop and the connection's descriptor. False means that it must be run by a goroutine, with conn.
func (ls *loops) seat(s *Session, conn net.Conn) bool {
	if s.srv.o.Engine == EngineGoroutine {
		return false
	}
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn, *late.Conn:
	default:
		return false
	}
	here, there := conn.LocalAddr(), conn.RemoteAddr()
	all := ls.get(s.srv)
	if len(all) == 0 {
		return false
	}
	d, ok, err := transport.Detach(conn)
	if err != nil || !ok {
		return false
	}
	ls.sit(s, d)
	s.seat.loop.visited.Store(true)
	if d.Unix {
		s.seat.ends = &socket.Ends{Local: here, Remote: there}
	}
	return true
}

// sit gives s a place in a loop, and d.
func (ls *loops) sit(s *Session, d transport.Descriptor) {
	all, st := *ls.all.Load(), &s.seat
	st.loop = all[int(ls.next.Add(1))%len(all)]
	s.fd, st.peer = int32(d.FD), d.Remote //nolint:gosec // descriptors are small
	if socket.Few(d.FD, stayUntil) {
		ls.fewUntil.Store(s.srv.clock() + int64(stayFor))
	}
	if !d.Unix {
		st.ends = ls.addresses.TCP(d.Local)
	}
	st.timer.Value = s
	s.c = (*bare)(s)
	st.loop.sit(s)
}

func (ls *loops) get(srv *Server) []*loop {
	if all := ls.all.Load(); all != nil {
		return *all
	}
	ls.making.Lock()
	defer ls.making.Unlock()
	if all := ls.all.Load(); all != nil {
		return *all
	}
	if ls.stopped {
		return nil
	}
	ls.slow.Count, ls.slow.Within = 3, time.Second
	ls.crew = crew.New(math.MaxInt, func(a away) { a.s.turnAway(a.t) }, srv.watch.Ensure)
	var all []*loop
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		l, err := newLoop(srv)
		if err != nil {
			srv.o.Logger.Warn("session: an event loop cannot be made, sessions get goroutines", "error", err)
			break
		}
		all = append(all, l)
	}
	ls.all.Store(&all)
	return all
}

// list returns the loops that there are.
func (ls *loops) list() []*loop {
	if all := ls.all.Load(); all != nil {
		return *all
	}
	return nil
}

// stop ends the loops; all sessions have ended.
func (ls *loops) stop() {
	ls.making.Lock()
	defer ls.making.Unlock()
	ls.stopped = true
	ls.dismiss(true)
	ls.peers.Close()
	for _, l := range ls.list() {
		l.stop()
	}
}

// wait waits until they have.
func (ls *loops) wait() {
	for _, l := range ls.list() {
		l.ended.Wait()
	}
	if ls.all.Load() != nil {
		ls.crew.Wait()
	}
	ls.peers.Wait()
}

// dismiss ends the goroutines of the crew that were not needed for a while, and reports whether there are others; for good in the end.
func (ls *loops) dismiss(forGood bool) (others bool) {
	return ls.all.Load() != nil && ls.crew.Dismiss(forGood)
}

// look is called by the watch: it takes over loops whose handlers take their time. It reports whether there was something to see.
func (ls *loops) look() (seen bool) {
	for _, l := range ls.list() {
		seen = l.look() || seen
	}
	return seen
}

// count returns how many loops there are.
func (ls *loops) count() int { return len(ls.list()) }

// busy reports whether the watchdog of a loop has barked since the watch looked.
func (ls *loops) busy() bool {
	return slices.ContainsFunc(ls.list(), func(l *loop) bool { return l.dog.Barked() })
}

// turnAway is a turn on a goroutine, and those that follow while the session stays there.
func (s *Session) turnAway(t turn) {
	began, done := s.srv.clock(), false
	defer func() {
		if !done { // a handler has ended the goroutine
			s.comeBack()
		}
	}()
	if t.greet {
		t.greet, t.open = false, s.seat.tls.greet()
		s.mu.Lock()
		if t.open && s.outsideLocked() {
			if s.phase.Load() != phaseClosed {
				done = true
				s.giveAwayLocked(t)
				return
			}
			t.open = false // not here
		}
		s.seat.free = true
		s.mu.Unlock()
		began = s.srv.clock()
	}
	s.takeAway(t)
	s.mu.Lock()
	if s.leaves() && !s.seat.deaf && s.phase.Load() != phaseClosed {
		s.errand.inside, done = false, true
		s.mu.Unlock()
		s.srv.loops.crew.Give(away{s, turn{rest: true, open: t.open}})
		return
	}
	s.mu.Unlock()
	if s.judge(began) && (t.open || t.read) { // a tick is no reason for a silent session to stay
		s.stay()
	}
	done = true
	s.comeBack()
}

// comeBack is the end of a turn that was not the driver's, or not any more.
func (s *Session) comeBack() {
	s.mu.Lock()
	if s.errand != nil {
		s.errand.inside = false
	}
	s.seat.away, s.seat.inline = false, false
	if s.fd < 0 {
		s.mu.Unlock()
		return
	}
	s.armLocked()
	if s.seat.owed {
		s.seat.loop.post(s)
	}
	s.turnedLocked()
}
