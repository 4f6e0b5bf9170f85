package session

import "fmt"

// stallError returns the error of a session whose peer does not read.
func (s *Session) stallError() error {
	return fmt.Errorf("%w: the peer read nothing for %v", ErrTimeout, s.o.WriteTimeout)
}

// helpLocked runs f on a goroutine of its own. The end of the session waits for it.
func (s *Session) helpLocked(f func()) {
	s.helpers++
	go func() {
		defer func() {
			s.out.Lock()
			s.helpers--
			s.c.changedLocked()
			s.out.Unlock()
		}()
		f()
	}()
}

// notify calls Writable until it is no longer owed. Calls never overlap: if Writable becomes owed during a call, this goroutine makes the next
// call too.
func (s *Session) notify() {
	s.out.Lock()
	defer s.out.Unlock()
	for s.out.TakeWritable() {
		if writable := s.h.Writable; writable != nil {
			s.writableLocked(writable)
		}
	}
	s.notifying = false
}

// writableLocked calls Writable without the lock. It holds the lock again afterwards, also if Writable has ended the goroutine.
func (s *Session) writableLocked(writable func(*Session)) {
	s.out.Unlock()
	defer s.out.Lock()
	s.guard("writable", func() { writable(s) })
}

// busyLocked reports whether messages are being handled, or the receiver has a message and has not asked for the next one.
func (s *Session) busyLocked() bool {
	switch {
	case s.packet != nil:
		return s.packet.reg.IsRunning()
	case s.pull != nil:
		return s.pull.outstanding.Load()
	}
	return s.out.Handling()
}

// handledLocked is called when the messages of a read have been handled. If Drain is owed, it calls Drain without the lock.
func (s *Session) handledLocked() {
	if s.out.Handled(); s.takeDrainLocked() {
		s.out.Unlock()
		s.drainOnce()
		s.out.Lock()
	}
}

// takeDrainLocked reports whether Drain is owed and can be called now. If so, Drain is no longer owed, and the caller calls drainOnce.
func (s *Session) takeDrainLocked() bool {
	owes := s.drainOwed && s.ready && s.phase.Load() == phaseOpen && !s.busyLocked()
	s.drainOwed = s.drainOwed && !owes
	return owes
}

// drainOnce calls Drain of the handler. Without one, it ends the session gently.
func (s *Session) drainOnce() {
	s.out.Lock()
	drain := s.h.Drain
	s.out.Unlock()
	if drain == nil {
		s.End(nil, s.srv.closedErr)
		return
	}
	s.guard("drain", func() { drain(s) })
}
