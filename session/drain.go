package session

import (
	"fmt"

	"github.com/sluice-push/sluice/internal/buffer"
)

// startDrainLocked hands the pen to the engine, which waits for room.
func (s *Session) startDrainLocked() {
	s.pen = penDraining
	if s.q != nil && s.c.direct() { // elsewhere it is not known that there is no room
		s.q.Settle(buffer.ChunkSize)
	}
	s.c.roomLocked()
}

// stalled is the error of a session whose peer does not read.
func (s *Session) stalled() error {
	return fmt.Errorf("%w: the peer took nothing for %v", ErrTimeout, s.o.WriteTimeout)
}

// helpLocked runs f on a goroutine of its own, which the end of the session waits for.
func (s *Session) helpLocked(f func()) {
	s.helpers++
	go func() {
		defer func() {
			s.mu.Lock()
			s.helpers--
			s.c.changedLocked()
			s.mu.Unlock()
		}()
		f()
	}()
}

// notify calls Writable as long as it is owed. Calls never overlap: whoever puts the pen down while this goroutine is at work
// leaves the next call to it.
func (s *Session) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.want && s.pen == penFree && s.phase.Load() == phaseOpen {
		s.want = false
		writable := s.h.Writable
		if writable == nil {
			continue
		}
		s.writableLocked(writable)
	}
	s.notifying = false
}

// writableLocked calls Writable without mu. It holds it again also when Writable has ended the goroutine.
func (s *Session) writableLocked(writable func(*Session)) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.guard("writable", func() { writable(s) })
}

// notifyLocked calls Writable, on a goroutine of its own, if it is owed and Open has returned.
func (s *Session) notifyLocked() {
	if s.want && s.ready && !s.notifying {
		s.notifying = true
		s.helpLocked(s.notify)
	}
}

// busyLocked reports whether messages are being handled, or one that was received has not been answered yet.
func (s *Session) busyLocked() bool {
	switch {
	case s.packet != nil:
		return s.packet.busy
	case s.pull != nil:
		return s.pull.out.Load()
	}
	return s.handling
}

// handledLocked is called when the messages of a read have been handled.
func (s *Session) handledLocked() {
	if s.handling = false; s.owesDrainLocked() {
		s.mu.Unlock()
		s.drainOnce()
		s.mu.Lock()
	}
}

// owesDrainLocked reports whether Drain is owed and can be called now. Then it is not owed any more.
func (s *Session) owesDrainLocked() bool {
	owes := s.goodbye && s.ready && s.phase.Load() == phaseOpen && !s.busyLocked()
	s.goodbye = s.goodbye && !owes
	return owes
}

// drainOnce calls Drain.
func (s *Session) drainOnce() {
	s.mu.Lock()
	drain := s.h.Drain
	s.mu.Unlock()
	if drain == nil {
		s.End(nil, s.srv.shut)
		return
	}
	s.guard("drain", func() { drain(s) })
}
