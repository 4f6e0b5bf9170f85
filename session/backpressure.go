package session

// Back-pressure (see package writer): while its Writer is overloaded, a session handles no messages and reads nothing.

// pauses reports whether the next message has to wait, and then records that input was left. The dispatching goroutine calls it before it
// decodes.
func (s *Session) pauses() bool {
	if s.out.Overloaded() && s.phase.Load() == phaseOpen {
		s.paused = true
	}
	return s.paused
}

// releaseInput releases the input buffer at the end of a dispatch. If a pause has begun, which may be long, unread bytes keep no more memory
// than they need.
func (s *Session) releaseInput() {
	if s.paused {
		s.in.Compact()
	} else {
		s.in.Shrink()
	}
}

// catchUp waits until messages may be handled, and handles the input that was left. The session's goroutine calls it before it reads. It reports
// whether to go on reading.
func (s *Session) catchUp() bool {
	for s.paused {
		s.in.Compact()
		s.awaitResume()
		if s.paused = false; s.phase.Load() == phaseClosed || !s.runPart(partFirst, 0) {
			return false
		}
		s.pauses() // the corked replies may have made the Writer overloaded again
	}
	return true
}

// awaitResume waits until the Writer is no longer overloaded, or the session is not open.
func (s *Session) awaitResume() {
	s.out.Lock()
	defer s.out.Unlock()
	for s.out.Overloaded() && s.phase.Load() == phaseOpen {
		changed := s.gor.ChangedLocked()
		s.out.Unlock()
		<-changed
		s.out.Lock()
	}
	s.armLocked()
}

// cork collects the frames that are sent from now on: the messages of one read are about to be handled.
func (s *Session) cork() {
	s.out.Lock()
	s.out.Cork(nil)
	s.out.Unlock()
}

// uncork writes the corked frames before all messages have been handled, because the handler waits.
func (s *Session) uncork() {
	s.out.Lock()
	s.uncorkLocked(noSocket)
	s.out.Unlock()
}

// handledAll writes the corked frames after all messages of the read have been handled. If the calling goroutine reads from the socket, it
// passes its descriptor, and otherwise noSocket.
func (s *Session) handledAll(socket int32) {
	s.out.Lock()
	s.uncorkLocked(socket)
	s.handledLocked()
	s.out.Unlock()
}

func (s *Session) uncorkLocked(socket int32) {
	if b := s.out.Uncork(socket); b != nil {
		s.srv.pools.PutBatch(b)
	}
}

const noSocket = -1
