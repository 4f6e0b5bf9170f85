package session

// restsLocked reports whether a frame can go straight to the socket: nothing waits, and nobody writes. That is so with nearly every write of
// a fan-out, and of thousands of sessions each finds all of this code cold. So these have a way of their own, without batch and queue.
func (s *Session) restsLocked() bool {
	return s.pen == penFree && s.q == nil && s.phase.Load() == phaseOpen && (s.gathered == nil || len(s.gathered.Scratch) == 0) && s.isBare()
}

// offerAloneLocked is offerLocked for one frame, on a session at rest. When that went smoothly it has put the pen down again.
func (s *Session) offerAloneLocked(p []byte) (n int, smooth bool) {
	s.pen = penWriting
	s.mu.Unlock()
	n, err := s.offerOne(p)
	s.srv.shard(s).bytesOut.Add(uint64(n))
	s.mu.Lock()
	if err != nil {
		s.brokenLocked(err)
	}
	if n < len(p) || s.q != nil || s.phase.Load() != phaseOpen {
		return n, false
	}
	s.putDownLocked()
	return n, true
}

// tryAloneLocked is TryWrite of one frame.
func (s *Session) tryAloneLocked(p []byte) (taken int, err error) {
	n, smooth := s.offerAloneLocked(p)
	if smooth {
		return 1, nil
	}
	taken = s.takenLocked([][]byte{p}, n, 0)
	s.refusedLocked(1 - taken)
	s.settleLocked(n == len(p))
	if taken == 0 {
		err = s.errLocked()
	}
	return taken, err
}
