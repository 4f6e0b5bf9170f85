package session

import (
	"slices"
	"time"
)

// Access to event loops for tests.

// Offloaded reports whether the session runs on goroutines because a handler has blocked.
func Offloaded(s *Session) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.loop.reg.Offload.Offloaded(s.loop.on.Offload(), s.srv.clock())
}

// DispatchedOffLoop reports whether a goroutine other than the loop's thread dispatches the session.
func DispatchedOffLoop(s *Session) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.loop.reg.Offloaded
}

// AllOffloaded reports whether all sessions on event loops are offloaded.
func AllOffloaded(srv *Server) bool {
	return !slices.ContainsFunc(srv.loops.get(srv), func(l *eventLoop) bool { return !l.Offload().Offloaded(srv.clock()) })
}

// OffloadAll offloads all sessions on event loops for a time.
func OffloadAll(srv *Server, d time.Duration) {
	for _, l := range srv.loops.get(srv) {
		l.Offload().OffloadUntil(srv.clock() + int64(d))
	}
}

// WaitsOffLoop reports whether s waits for its peer on a goroutine.
func WaitsOffLoop(s *Session) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.loop.reg.Waiter != nil
}

// LoopWaits reports whether the thread of a session's loop waits, and whether it does so in the runtime's poller, without an OS thread of its own.
func LoopWaits(s *Session) (waits, parks bool) {
	return s.loop.on.IsIdle(), !s.loop.on.HasThread()
}

// WatchdogRuns reports whether the watchdog of srv is ticking.
func WatchdogRuns(srv *Server) bool { return srv.watchdog.Running() }

// Spins reports whether the loops of an idle server wake again and again.
func Spins(srv *Server) bool {
	wakes := 0
	for _, l := range *srv.loops.all.Load() {
		last := l.Now()
		for range 50 {
			<-time.After(time.Millisecond)
			if now := l.Now(); now != last {
				last = now
				wakes++
			}
		}
	}
	return wakes > 20
}

// SendCloseAlert has TLS write its closing alert while there is no room for it.
func SendCloseAlert(s *Session) error { return s.loop.tls.mem.CloseWrite() }

// LoopAcceptors returns for how many listeners loops accept.
func LoopAcceptors(srv *Server) (n int) {
	for _, l := range srv.loops.list() {
		n += l.Acceptors()
	}
	return n
}
