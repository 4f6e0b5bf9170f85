package session

import (
	"slices"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/epoll"
)

// Sending without copying, on bare sockets (MSG_ZEROCOPY). The kernel numbers the calls of each socket and reports in its error queue, which
// makes the socket ready with epoll.Err, which of them it is done with. Until then the memory must stay as it is, and so the frame counts
// as not written: WriteLarge waits, and so does a gentle end, as long as the peer goes on to acknowledge bytes. When a session is closed
// meanwhile, its connection is reset first, by which the kernel forgets what it refers to.
//
// A session with a goroutine does not do this: to the runtime's poller a report looks like a broken descriptor.

// zeroCopy is what the server knows of a session that has sent so. Guarded by the session's mutex.
type zeroCopy struct {
	off     bool            // it is not worth it, or not possible
	next    uint32          // the number of the next call
	waiting []*buffer.Large // in the order of their calls
	acked   uint64          // how many bytes the peer had acknowledged when that was looked at last,
	moved   int64           // and when it had become more, or the memory of another frame was waited for
}

// listenLocked has l sent without being copied, if it should be and can.
func (s *Session) listenLocked(l *buffer.Large) {
	if s.seat.loop == nil || s.seat.tls != nil {
		return
	}
	if !l.Registered && (s.o.ZeroCopy == 0 || !l.Memory() || l.Left() < int64(s.o.ZeroCopy)) {
		return
	}
	z := s.zeroCopy()
	switch {
	case l.Registered:
		l.Zero = !z.off
		return
	case !s.seat.zero:
		s.seat.zero = true
		z.off = buffer.EnableZeroCopy(int(s.fd)) != nil
	}
	if z.off {
		return
	}
	l.Zero, l.Registered, l.First = true, true, z.next
	z.waiting = append(z.waiting, l)
}

// zeroCopy returns what is known of s.
func (s *Session) zeroCopy() *zeroCopy {
	ls := &s.srv.loops
	ls.zeroMu.Lock()
	defer ls.zeroMu.Unlock()
	z := ls.zero[s]
	if z == nil {
		if ls.zero == nil {
			ls.zero = make(map[*Session]*zeroCopy)
		}
		z = new(zeroCopy)
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
	z := s.zeroCopy()
	z.next = l.First + l.Sent
	if l.Acked != l.Sent {
		z.moved, z.acked = s.srv.clock(), buffer.Acknowledged(uintptr(s.fd))
		s.watchForLocked() // also while there is nothing else to wait for
		s.armLocked()
		return false
	}
	z.remove(l)
	return true
}

// reportsDueLocked returns when to look whether the peer still takes something, if nothing but that is awaited; 0 is never. Who has the
// pen, or waits for room, sees to it otherwise.
func (s *Session) reportsDueLocked() int64 {
	if s.o.WriteTimeout == 0 || s.pen == penDraining || !s.unreportedLocked() {
		return 0
	}
	return s.zeroCopy().moved + int64(s.o.WriteTimeout)
}

// reportsLateLocked reports whether the peer has taken nothing of what the kernel has still to report for Options.WriteTimeout.
func (s *Session) reportsLateLocked() bool {
	now := s.srv.clock()
	if due := s.reportsDueLocked(); due == 0 || now < due || s.fd < 0 || s.phase.Load() == phaseClosed {
		return false
	}
	z := s.zeroCopy()
	if n := buffer.Acknowledged(uintptr(s.fd)); n != z.acked {
		z.acked, z.moved = n, now
		return false
	}
	return true
}

func (z *zeroCopy) remove(l *buffer.Large) {
	z.waiting = slices.DeleteFunc(z.waiting, func(other *buffer.Large) bool { return other == l })
}

// unreportedLocked reports whether the kernel still refers to memory of somebody's.
func (s *Session) unreportedLocked() bool {
	return s.seat.zero && len(s.zeroCopy().waiting) > 0
}

// reportsLocked reads what the kernel has reported, and returns what the socket is ready for besides.
func (s *Session) reportsLocked(what uint32) uint32 {
	z := s.zeroCopy()
	some := false
	for r, ok := buffer.NextReport(int(s.fd)); ok; r, ok = buffer.NextReport(int(s.fd)) {
		some = true
		z.off = z.off || r.Copied && !s.srv.loops.zeroKeep
		r.Count(z.waiting)
	}
	if !some {
		return what
	}
	for _, l := range slices.Clone(z.waiting) {
		if !l.Lent && l.Left() == 0 && l.Acked == l.Sent {
			z.remove(l)
			l.Finish(nil)
		}
	}
	if len(z.waiting) > 0 {
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
	z, err := s.zeroCopy(), s.errLocked()
	for _, l := range z.waiting {
		if !l.Lent {
			l.Finish(err)
		}
	}
	z.waiting = nil
}
