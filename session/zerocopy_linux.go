package session

import (
	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/epoll"
)

// Sending without copying, on bare sockets (buffer.Reports). What the kernel is done with it reports in the error queue of a socket, which is
// ready with epoll.Err then. Until that has come the memory must stay as it is, and so the frame counts as not written: WriteLarge waits, and so
// does a gentle end, as long as the peer goes on to acknowledge bytes. When a session is closed meanwhile, its connection is reset first, by
// which the kernel forgets what it refers to.
//
// A session with a goroutine does not do this, and one that has does not stay on one: the runtime's poller takes a report for a broken descriptor.

// listenLocked has l sent without being copied, if it should be and can.
func (s *Session) listenLocked(l *buffer.Large) {
	if s.seat.loop == nil || s.seat.tls != nil || !l.Registered && (s.o.ZeroCopy == 0 || !l.Memory() || l.Left() < int64(s.o.ZeroCopy)) {
		return
	}
	z := s.zeroCopy()
	switch {
	case l.Registered:
		l.Zero = !z.Off
		return
	case !s.seat.zero:
		s.seat.zero = true
		z.Off = buffer.EnableZeroCopy(int(s.fd)) != nil
	}
	if !z.Off {
		z.Expect(l)
	}
}

// zeroCopy returns what the server knows of s, which the session's mutex guards.
func (s *Session) zeroCopy() *buffer.Reports {
	ls := &s.srv.loops
	ls.zeroMu.Lock()
	defer ls.zeroMu.Unlock()
	z := ls.zero[s]
	if z == nil {
		if ls.zero == nil {
			ls.zero = make(map[*Session]*buffer.Reports)
		}
		z = new(buffer.Reports)
		ls.zero[s] = z
	}
	return z
}

// forgetZeroCopy is called when s has ended.
func (s *Session) forgetZeroCopy() {
	if !s.seat.zero {
		return
	}
	ls := &s.srv.loops
	ls.zeroMu.Lock()
	defer ls.zeroMu.Unlock()
	delete(ls.zero, s)
}

// reportedLocked is called when all of l has been sent. It reports whether the kernel is done with it.
func (s *Session) reportedLocked(l *buffer.Large) bool {
	if s.zeroCopy().Sent(l, uintptr(s.fd), s.srv.clock()) {
		return true
	}
	s.watchForLocked() // also while there is nothing else to wait for
	s.armLocked()
	return false
}

// reportsDueLocked returns when to look whether the peer still takes something, if nothing but that is awaited; 0 is never. Who has the
// pen, or waits for room, sees to it otherwise.
func (s *Session) reportsDueLocked() int64 {
	if s.o.WriteTimeout == 0 || s.pen == penDraining || !s.unreportedLocked() {
		return 0
	}
	return s.zeroCopy().Progress() + int64(s.o.WriteTimeout)
}

// reportsLateLocked reports whether the peer has taken nothing of what the kernel has still to report for Options.WriteTimeout.
func (s *Session) reportsLateLocked() bool {
	now := s.srv.clock()
	if due := s.reportsDueLocked(); due == 0 || now < due || s.fd < 0 || s.phase.Load() == phaseClosed {
		return false
	}
	return !s.zeroCopy().Progressed(uintptr(s.fd), now)
}

// unreportedLocked reports whether the kernel still refers to memory of somebody's.
func (s *Session) unreportedLocked() bool {
	return s.seat.zero && s.zeroCopy().Any()
}

// reportsLocked reads what the kernel has reported, and returns what the socket is ready for besides.
func (s *Session) reportsLocked(what uint32) uint32 {
	z := s.zeroCopy()
	if !z.Read(int(s.fd), s.srv.loops.zeroKeep) {
		return what
	}
	if z.Any() {
		s.seat.mask = stale // the next one is to be heard too
	} else if s.phase.Load() == phaseEnding && s.pen == penFree && s.q == nil {
		s.writtenOutLocked()
	}
	return what &^ epoll.Err
}

// disconnectLocked has the kernel forget the memory that it refers to. Whoever waits for that is told that the session has ended.
func (s *Session) disconnectLocked() {
	if !s.unreportedLocked() {
		return
	}
	buffer.Disconnect(uintptr(s.fd))
	s.zeroCopy().Drop(s.errLocked())
}
