package session

import "time"

const busyFor = 10 * time.Millisecond // for how long a handler may compute; one that blocks loses its loop sooner

// look is called by the watch: it takes the loop over if the handler that the driver has called sleeps, or has been seen to compute for too
// long. It reports whether there was something to see.
func (l *loop) look() (seen bool) {
	d, now := l.driver.Load(), l.srv.clock()
	stamp := d.stamp.Load()
	busy := l.sight.Look(stamp, now)
	if stamp%2 == 0 || busy == 0 {
		return l.dog.Quiet()
	}
	s, computes := d.cur.Load(), busy >= int64(busyFor)
	if s == nil || stamp&takenOver != 0 || !computes && !d.thread.Asleep() || !s.mu.TryLock() {
		return true
	}
	counts := !computes && s.seat.pace.IsNews(&l.srv.loops.slow, now)
	next := l.takeOverLocked(s, d, stamp)
	s.mu.Unlock()
	if next == nil {
		return true
	}
	if counts {
		l.srv.loops.slow.TookOver(now, l.srv.Stats().Moved)
	}
	go next.run()
	s.lostLoop()
	return true
}

// takeOverLocked has another driver go on with the loop while s, whose mutex is held, has its turn, if stamp is still true. The new driver is to
// be run, and then the cork to be drawn: that may have to wait for an encoder of s.
func (l *loop) takeOverLocked(s *Session, d *driver, stamp uint64) (next *driver) {
	if stamp&takenOver != 0 || s.seat.away || !d.stamp.CompareAndSwap(stamp, stamp|takenOver) {
		return nil
	}
	s.seat.away, s.seat.inline = true, false
	l.mu.Lock()
	l.lost[s] = d
	l.mu.Unlock()
	s.seat.pace.Lost(l.srv.clock())
	l.blocked.Add(1)
	s.watchForLocked()
	return l.succeed(d)
}

// lostBy returns the driver that lost the loop to the handler of s which its goroutine still runs, or nil.
func (l *loop) lostBy(s *Session) *driver {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[s]
}

// lostLoop writes what the handler that has lost its loop has sent, and tells the observer.
func (s *Session) lostLoop() {
	s.mu.Lock()
	s.drawLocked()
	s.mu.Unlock()
	s.wasTakenOver()
}

// drawLocked draws the cork of a turn that is not the driver's any more.
func (s *Session) drawLocked() {
	if s.seat.away && s.corked {
		if g := s.uncorkLocked(); g != nil {
			s.srv.pools.PutBatch(g)
		}
	}
}

// resumeLocked has the loop give s a turn: see backpressure.go.
func (b *bare) resumeLocked() {
	if s := b.session(); s.fd >= 0 {
		s.seat.loop.post(s)
	}
}
