package session

import "time"

// flushRounds is how many writes a session gets when there is room.
const flushRounds = 4

// flushLocked is called when a connection has room, or is over, and the pen is the engine's. It reports whether there was none after all.
func (s *Session) flushLocked() (stuck bool) {
	b := s.srv.pools.Batch()
	defer s.srv.pools.PutBatch(b)
	for round := range flushRounds {
		if l := s.frontLocked(); l != nil && s.phase.Load() != phaseClosed {
			left := l.Left()
			room := s.offerLargeLocked(l)
			s.pen = penDraining
			if l.Left() < left {
				s.seat.stalled = s.seat.loop.now.Load()
			}
			if !room && !l.Over() {
				return round == 0 && l.Left() == left
			}
			continue
		}
		b.Clear()
		if s.phase.Load() == phaseClosed || s.lendLocked(b) == 0 && !s.c.holding() {
			s.putDownLocked()
			return false
		}
		n, room, ok := s.offerLocked(b)
		s.pen = penDraining
		s.writtenLocked(n)
		if b.Sent > 0 {
			s.seat.stalled = s.seat.loop.now.Load()
		}
		if !ok || !room {
			return ok && round == 0 && b.Sent == 0
		}
	}
	return false
}

// balkTime is for how long a connection is left alone that has no room although the kernel says so.
const balkTime = time.Second

// balkLocked is called when nothing could be written although the kernel has said that there is room. It says so, again and again, where it has no
// memory left for any connection: so the interest in room is put aside for that long, or sessions that wait for it would take all turns.
func (s *Session) balkLocked() {
	s.seat.balked = true
	s.armLocked()
}
