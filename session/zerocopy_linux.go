package session

import (
	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/writer"
)

// Sending without copying (MSG_ZEROCOPY, buffer.Reports). The kernel reports in the error queue of a socket when it no longer refers to sent
// memory; the event is eventloop.Err. Until then the memory must not change, so the frame counts as not written. WriteLarge waits, and so does
// the end of the session, as long as the peer goes on to acknowledge bytes. If a session is closed meanwhile, its connection is reset first,
// which makes the kernel release the memory.
//
// Only sessions on a loop do this, and a session that has done it never waits off its loop: the runtime's poller takes a report for a broken
// descriptor.

// BeginBig chooses zero copy for l, if Options.ZeroCopy asks for it and the kernel can do it.
func (c *loopConn) BeginBig(l *buffer.BigFrame) {
	s := c.session()
	if s.loop.on == nil || s.loop.tls != nil || !l.Registered && (s.o.ZeroCopy == 0 || !l.InMemory() || l.Remaining() < int64(s.o.ZeroCopy)) {
		return
	}
	z := s.zeroCopy()
	switch {
	case l.Registered:
		l.ZeroCopy = !z.Off
		return
	case !s.loop.zeroCopied:
		s.loop.zeroCopied = true
		z.Off = buffer.EnableZeroCopy(int(s.fd)) != nil
	}
	if !z.Off {
		z.Track(l)
	}
}

// zeroCopy returns the reports of s, which the lock guards. It makes them at the first call.
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

// forgetZeroCopy drops the reports of s, which has ended.
func (s *Session) forgetZeroCopy() {
	if !s.loop.zeroCopied {
		return
	}
	ls := &s.srv.loops
	ls.zeroMu.Lock()
	defer ls.zeroMu.Unlock()
	delete(ls.zero, s)
}

// EndBig is called when all of l has been sent. It reports whether the kernel no longer refers to its memory.
func (c *loopConn) EndBig(l *buffer.BigFrame) bool {
	s := c.session()
	if !l.Registered || s.zeroCopy().Sent(l, uintptr(s.fd), s.srv.clock()) {
		return true
	}
	s.updateInterestLocked() // the reports may be all that the session waits for
	s.armLocked()
	return false
}

// reportsDueLocked returns when to check that the peer still acknowledges bytes, if the session waits only for the kernel's reports; 0 is never.
// While frames wait for room, WriteTimeout bounds that wait.
func (s *Session) reportsDueLocked() int64 {
	if s.o.WriteTimeout == 0 || s.out.State() == writer.WaitWritable || !s.unreportedLocked() {
		return 0
	}
	return s.zeroCopy().Progress() + int64(s.o.WriteTimeout)
}

// reportsLateLocked reports whether the peer has acknowledged nothing for Options.WriteTimeout while the kernel still refers to memory.
func (s *Session) reportsLateLocked() bool {
	now := s.srv.clock()
	if due := s.reportsDueLocked(); due == 0 || now < due || s.fd < 0 || s.phase.Load() == phaseClosed {
		return false
	}
	return !s.zeroCopy().Progressed(uintptr(s.fd), now)
}

// unreportedLocked reports whether the kernel still refers to a caller's memory.
func (s *Session) unreportedLocked() bool {
	return s.loop.zeroCopied && s.zeroCopy().HasPending()
}

// reportsLocked reads the kernel's reports, and returns the other events of the socket.
func (s *Session) reportsLocked(events uint32) uint32 {
	z := s.zeroCopy()
	if !z.Read(int(s.fd), s.srv.loops.zeroKeep) {
		return events
	}
	if z.HasPending() {
		s.loop.reg.ForgetInterest() // the kernel has to report the next one too
	} else if s.phase.Load() == phaseEnding && s.out.IsEmpty() {
		s.allWrittenLocked()
	}
	return events &^ eventloop.Err
}

// disconnectLocked makes the kernel release the memory that it refers to. Callers that wait for that get the session's error.
func (s *Session) disconnectLocked() {
	if !s.unreportedLocked() {
		return
	}
	buffer.Disconnect(uintptr(s.fd))
	s.zeroCopy().Abort(s.errLocked())
}
