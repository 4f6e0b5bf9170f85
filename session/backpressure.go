package session

import "math"

// Backpressure: while much of what a session has answered waits for its peer, its messages are not handled and its connection is not read.
// So an answer seldom has to wait on a goroutine for a peer that asks and does not read, and what such a peer costs is about half a queue and
// what had been read of it by then. TCP tells the peer; Options.WriteTimeout ends it.
//
//	handling ──► pauseLocked: a quarter of the queue is full, or a codec's reply finds no room ──► paused: nothing is read
//	    ▲                                                                                          │
//	    └────────── resumeLocked: what waited then has been written, or the session is ending ◄────┘
//
// It ends when as many bytes have gone as waited when it began, not when few wait: others may be sending to the same session all the time.

// pauseLocked has no message handled until what waits to be written now has gone, if that is at least a quarter of what may wait.
func (s *Session) pauseLocked() {
	b := &s.o.bounds
	if s.o.Policy == Wait && s.pull == nil && s.q != nil && (s.q.Bytes() >= b.Bytes/4 || s.q.Len() >= b.Frames/4) {
		s.pauseNowLocked()
	}
}

func (s *Session) pauseNowLocked() {
	if s.pen != penFree && s.unwritten.Load() == 0 && s.phase.Load() == phaseOpen {
		s.unwritten.Store(int32(min(s.q.Bytes(), math.MaxInt32))) //nolint:gosec // no more than that
	}
}

// progressLocked is called when n bytes of the queue have been written.
func (s *Session) progressLocked(n int) {
	if left := s.unwritten.Load(); left > 0 && n > 0 {
		if int(left) <= n {
			s.resumeLocked()
		} else {
			s.unwritten.Store(left - int32(n)) //nolint:gosec // less than left
		}
	}
}

// resumeLocked has messages handled again.
func (s *Session) resumeLocked() {
	if s.unwritten.Load() == 0 {
		return
	}
	s.unwritten.Store(0)
	s.forgiveLocked()
	s.c.resumeLocked()
}

// pauses is called by who has the turn before a message is decoded. It reports whether that has to wait, and notes that something was left.
func (s *Session) pauses() bool {
	if s.unwritten.Load() > 0 && s.phase.Load() == phaseOpen {
		s.paused = true
	}
	return s.paused
}

// rest gives back the memory that the end of a turn leaves.
func (s *Session) rest() {
	if s.paused {
		s.in.Tighten()
	} else {
		s.in.Rest()
	}
}

// catchUp is called by the goroutine of a session before it reads: it waits until messages may be handled, and handles those that were left. It
// reports whether to go on reading.
func (s *Session) catchUp() bool {
	for s.paused {
		s.in.Tighten()
		s.awaitResume()
		if s.paused = false; s.phase.Load() == phaseClosed || !s.delegate(partFirst, 0) {
			return false
		}
		s.pauses() // for what was gathered
	}
	return true
}

func (s *Session) awaitResume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.unwritten.Load() > 0 && s.phase.Load() == phaseOpen {
		changed := s.wakeMeLocked()
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
	s.armLocked()
}
