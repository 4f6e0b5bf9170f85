package session

// restsLocked reports whether a frame can go straight to the socket: nothing waits, and nobody writes. That is so with nearly every write of
// a fan-out, and of thousands of sessions each finds all of this code cold. So these have a way of their own, without batch and queue.
func (s *Session) restsLocked() bool {
	return s.pen == penFree && s.q == nil && s.phase.Load() == phaseOpen && (s.gathered == nil || len(s.gathered.Scratch) == 0) && s.isBare()
}

// smoothLocked accounts for n bytes, which may be all that there was, that were written to a session at rest, or could not be. When that went
// smoothly it puts the pen down, and nothing is left to be done.
func (s *Session) smoothLocked(isAll bool, n int, failed error) bool {
	s.srv.shard(s).bytesOut.Add(uint64(n))
	if failed != nil {
		s.brokenLocked(failed)
	}
	if !isAll || s.q != nil || s.phase.Load() != phaseOpen {
		return false
	}
	s.putDownLocked()
	return true
}

// tryAloneLocked is TryWrite of one frame.
func (s *Session) tryAloneLocked(p []byte) (taken int, err error) {
	s.pen = penWriting
	s.mu.Unlock()
	n, err := s.offerOne(p)
	s.mu.Lock()
	return s.triedLocked(p, n, err)
}

// triedLocked ends a TryWrite of one frame, of which n bytes were written by who took the pen.
func (s *Session) triedLocked(p []byte, n int, failed error) (taken int, err error) {
	if s.smoothLocked(n == len(p), n, failed) {
		return 1, nil
	}
	taken = s.takenLocked([][]byte{p}, n, 0)
	s.refusedLocked(1 - taken)
	s.settleLocked(n == len(p))
	if taken == 0 {
		return 0, s.errLocked()
	}
	return taken, nil
}
