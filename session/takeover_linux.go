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
	l.looks.Lock()
	d, now := l.driver.Load(), l.srv.clock()
	stamp := d.stamp.Load()
	busy, waits := l.sight.Look(stamp, now), len(l.taken) > 0
	l.taken.Count(&l.srv.loops.slow, now)
	l.looks.Unlock()
	if stamp%2 == 0 || busy == 0 && !l.alert(now) {
		return l.dog.Quiet() || waits
	}
	if s, next := l.relieve(d, stamp, busy, nil); next != nil {
		go next.run()
		s.wasTakenOver()
	}
	return true
}

// relieve takes the loop over if the handler that d has called sleeps, or has been seen to compute for too long. It returns the handler's session
// then, and the new driver, which is to be run.
func (l *loop) relieve(d *driver, stamp uint64, busy int64, spare *driver) (s *Session, next *driver) {
	computes := busy >= int64(busyFor)
	if stamp%2 == 0 || stamp&takenOver != 0 || !computes && !d.thread.Asleep(busy > 0) {
		return nil, nil
	}
	if s = d.cur.Load(); s == nil || !s.mu.TryLock() {
		return nil, nil
	}
	defer s.mu.Unlock()
	if d.stamp.Load() != stamp { // it has given the loop up by itself
		return nil, nil
	}
	now := l.srv.clock()
	if !computes {
		d.lost.Lost(now - busy)
	}
	if next = l.takeOverLocked(s, d, stamp, spare); next == nil {
		d.lost.Kept()
	}
	if next == nil || computes {
		return s, next
	}
	l.looks.Lock()
	defer l.looks.Unlock()
	l.taken.Count(&l.srv.loops.slow, now)
	l.taken = append(l.taken, &d.lost)
	return s, next
}

// takeOverLocked has another driver go on with the loop while s, whose mutex is held, has its turn, if stamp is still true. What it has sent so
// far is written. It returns that driver, which is to be run: the spare one, if there is one.
func (l *loop) takeOverLocked(s *Session, d *driver, stamp uint64, spare *driver) (next *driver) {
	if stamp&takenOver != 0 || s.seat.away || !d.stamp.CompareAndSwap(stamp, stamp|takenOver) {
		return nil
	}
	s.seat.away, s.seat.inline = true, false
	d.pace = s.seat.pace
	s.seat.pace.Lost(l.srv.clock())
	l.blocked.Add(1)
	next = l.succeed(d, spare)
	s.watchForLocked()
	if s.corked {
		if g := s.uncorkLocked(); g != nil {
			l.srv.pools.PutBatch(g)
		}
	}
	return next
}

// stand is the sentry. When there is something to do while a handler runs it looks whether that sleeps, and if so is the next driver itself, and
// another goroutine the sentry. Once told it looks until the driver rests: of what was ready at the same time nobody tells it.
func (l *loop) stand() {
	for spare := l.newDriver(); l.guard.Wait() == nil; {
		for l.alert(l.srv.clock()) && !l.rests() {
			d := l.driver.Load()
			s, next := l.relieve(d, d.stamp.Load(), 0, spare)
			if next == nil {
				pulse.Doze(lookAgain)
				continue
			}
			l.ended.Go(func() {
				s.wasTakenOver()
				l.stand()
			})
			next.run()
			return
		}
	}
}
