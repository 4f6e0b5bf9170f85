package session

import "time"

// Doors for the tests of the event loops.

// Slow reports whether the session's turns are given to goroutines.
func Slow(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat.pace.Slow()
}

// Away reports whether somebody else than the driver of its loop has the session's turn.
func Away(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat.away
}

// AllSlow reports whether those of all sessions are.
func AllSlow(srv *Server) bool { return srv.loops.slow.Slow(srv.clock()) }

// TookOver counts some take-overs of quick sessions, so that all are slow for a while.
func TookOver(srv *Server) {
	for range srv.loops.slow.Count {
		srv.loops.slow.TookOver(srv.clock(), 0)
	}
}

// SlowDown makes all sessions of srv slow, for an hour.
func SlowDown(srv *Server) {
	for !AllSlow(srv) {
		srv.loops.slow.TookOver(srv.clock()+int64(time.Hour), 0)
	}
}

// Stays reports whether s waits for its peer on a goroutine.
func Stays(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat.out != nil
}

// Waits reports whether the driver of a session's loop waits, and if so whether it does in the runtime's poller.
func Waits(s *Session) (waits, parks bool) {
	return s.seat.loop.rests(), s.seat.loop.driver.Load().thread.Shared()
}

// WatchRuns reports whether the watch of srv looks again and again.
func WatchRuns(srv *Server) bool { return srv.watch.Running() }

// Spins reports whether the loops of a server that has nothing to do are at work again and again.
func Spins(srv *Server) bool {
	wakes := 0
	for _, l := range *srv.loops.all.Load() {
		last := l.now.Load()
		for range 50 {
			<-time.After(time.Millisecond)
			if now := l.now.Load(); now != last {
				last = now
				wakes++
			}
		}
	}
	return wakes > 20
}

// Farewell has TLS write its end while there is no room for it.
func Farewell(s *Session) error { return s.seat.tls.mem.CloseWrite() }

// Doors returns at how many listeners loops accept.
func Doors(srv *Server) (n int) {
	for _, l := range srv.loops.list() {
		l.mu.Lock()
		n += len(l.doors)
		l.mu.Unlock()
	}
	return n
}
