package session

import "time"

// Doors for the tests of the event loops.

// Slow reports whether the session's turns are given to goroutines.
func Slow(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat.pace.Slow()
}

// AllSlow reports whether those of all sessions are.
func AllSlow(srv *Server) bool { return srv.loops.slow.Slow(srv.clock()) }

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
