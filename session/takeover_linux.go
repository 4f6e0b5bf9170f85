package session

import (
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
)

const (
	busyFor   = 10 * time.Millisecond  // for how long a handler may compute; one that blocks loses its loop sooner
	lookAgain = 250 * time.Microsecond // after which a sentry looks again
)

// look is called by the watch: it takes the loop over if the handler takes its time. It reports whether there was something to see.
func (l *loop) look() (seen bool) {
	d, now := l.driver.Load(), l.srv.clock()
	stamp := d.stamp.Load()
	busy, waits := l.sight.Look(stamp, now), l.taken.Count(&l.srv.loops.slow, now)
	if stamp%2 == 0 || busy == 0 && !l.alert(now) {
		return l.dog.Quiet() || waits
	}
	if s, next := l.relieve(d, stamp, busy, nil); next != nil {
		go next.run()
		s.lostLoop()
	}
	return true
}

// relieve takes the loop over if the handler that d has called sleeps, or has been seen to compute for too long. It returns the handler's session
// then, and the new driver, which is to be run before the session is told.
func (l *loop) relieve(d *driver, stamp uint64, busy int64, spare *driver) (s *Session, next *driver) {
	computes := busy >= int64(busyFor)
	if stamp%2 == 0 || stamp&takenOver != 0 || !computes && !d.thread.Asleep(busy > 0) {
		return nil, nil
	}
	if s = d.cur.Load(); s == nil || !s.mu.TryLock() {
		return nil, nil
	}
	defer s.mu.Unlock()
	now, began := l.srv.clock(), int64(0)
	if !computes {
		began = now - busy
	}
	if next = l.takeOverLocked(s, d, stamp, began, spare); next != nil && !computes {
		l.taken.Add(&d.lost)
	}
	return s, next
}

// takeOverLocked has another driver, the spare one if there is one, go on with the loop while s, whose mutex is held, has its turn, if stamp is
// still true. The turn counts as one that has begun then, if at all. The new driver is to be run, and then the cork to be drawn: that may have
// to wait for an encoder of s.
func (l *loop) takeOverLocked(s *Session, d *driver, stamp uint64, began int64, spare *driver) (next *driver) {
	if stamp&takenOver != 0 || s.seat.away || !d.stamp.CompareAndSwap(stamp, stamp|takenOver) {
		return nil
	}
	s.seat.away, s.seat.inline = true, false
	d.lost.Lost(began)
	d.pace = s.seat.pace
	s.seat.pace.Lost(l.srv.clock())
	l.blocked.Add(1)
	s.watchForLocked()
	return l.succeed(d, spare)
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

// stand is the sentry. When there is something to do while a handler runs it looks whether that sleeps, and if so is the next driver itself, and
// another goroutine the sentry. Once told it looks until the driver rests: nobody tells when a thread begins to sleep. It is told for nothing by
// what is level triggered, TLS and listeners, which is ready until it has been read.
func (l *loop) stand() {
	for spare := l.newDriver(); l.guard.Wait() == nil; {
		for l.alert(l.srv.clock()) && !l.rests() {
			d := l.driver.Load()
			s, next := l.relieve(d, d.stamp.Load(), 0, spare)
			if next == nil {
				pulse.Doze(lookAgain)
				continue
			}
			l.ended.Go(l.stand)
			l.ended.Go(s.lostLoop)
			next.run()
			return
		}
	}
}
