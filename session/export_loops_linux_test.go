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

// HoldWatch keeps the watch of srv from looking, once it has ended by itself, and reports whether it has.
func HoldWatch(srv *Server) bool { return srv.watch.Hold() }

// WatchRuns reports whether the watch of srv looks again and again.
func WatchRuns(srv *Server) bool { return srv.watch.Running() }

// Look is what the watch does.
func Look(srv *Server) { srv.watch.look() }

// Alert reports whether handlers have blocked lately.
func Alert(srv *Server) bool { return srv.loops.slow.Lately(srv.clock()) }

// Guarded reports whether a sentry stands at the loop of s.
func Guarded(s *Session) bool { return s.seat.loop.manned.Load() }

// Posted reports whether the sentry is still to be told of something.
func Posted(s *Session) bool { return s.seat.loop.guard.Posted() }

// Post has the loop of s give it a turn.
func Post(s *Session) { s.seat.loop.post(s) }

// Neighbours reports whether two sessions have the same loop.
func Neighbours(a, b *Session) bool { return a.seat.loop == b.seat.loop }

// Asleep reports whether the thread of the driver of a session's loop sleeps while a session has its turn.
func Asleep(s *Session) bool {
	d := s.seat.loop.driver.Load()
	return d.stamp.Load()%2 == 1 && d.thread.Asleep(true)
}

// Parks reports whether the driver of a session's loop waits in the runtime's poller.
func Parks(s *Session) bool { return s.seat.loop.rests() && s.seat.loop.driver.Load().thread.Shared() }

// Alarm makes the watch of srv take loops over at first sight, and sentries stand at them, for an hour.
func Alarm(srv *Server) { srv.loops.slow.Expect(srv.clock() + int64(time.Hour)) }

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
