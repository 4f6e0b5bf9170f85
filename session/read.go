package session

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// startClocksLocked starts the timeouts.
func (s *Session) startClocksLocked() {
	now := s.srv.clock()
	s.lastRead.Store(now)
	if s.firstWait = s.firstWait && s.o.FirstTimeout > 0; s.firstWait && s.phase.Load() == phaseOpen {
		s.endBy = now + int64(s.o.FirstTimeout)
	}
	if s.o.TickInterval > 0 {
		s.nextTick = now + int64(s.o.TickInterval)
	}
	if s.dueLocked() > 0 {
		s.armLocked()
	}
}

// armLocked sets the timer that calls checkClocksLocked.
func (s *Session) armLocked() {
	if s.phase.Load() != phaseClosed {
		s.c.armLocked()
	}
}

// dueLocked returns the time at which checkClocksLocked should be called, by the server's clock; 0 is never.
func (s *Session) dueLocked() int64 {
	due := s.endBy
	if s.phase.Load() != phaseOpen {
		return due
	}
	if idle := int64(s.o.IdleTimeout); idle > 0 {
		due = sooner(due, s.lastRead.Load()+idle)
	}
	if s.nextTick > 0 && s.opened {
		due = sooner(due, s.nextTick)
	}
	return due
}

// sooner returns the earlier of two times, of which 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// checkClocksLocked is called when the time of dueLocked has come, and ends the session if a timeout has passed. Bytes that arrive do not move
// the timer, so the peer may not have been silent. checkClocksLocked reports whether Tick is to be called.
func (s *Session) checkClocksLocked() (tick bool) {
	switch { // this side kept the peer from being read
	case s.pull != nil && s.pull.waits.Load():
		s.resetClocksLocked()
	case s.task != nil && s.task.pending:
		s.creditClocksLocked()
	case s.out.Overloaded():
		s.resetClocksLocked()
	}
	now, o := s.srv.clock(), s.o
	switch phase := s.phase.Load(); {
	case phase == phaseClosed:
	case s.endBy > 0 && now >= s.endBy:
		err := ErrTimeout
		if phase == phaseOpen {
			err = fmt.Errorf("%w: no first message for %v", ErrTimeout, o.FirstTimeout)
		}
		s.failLocked(ByTimeout, err)
	case phase == phaseEnding:
	case o.IdleTimeout > 0 && now-s.lastRead.Load() >= int64(o.IdleTimeout):
		s.failLocked(ByTimeout, fmt.Errorf("%w: nothing received for %v", ErrTimeout, o.IdleTimeout))
	case s.nextTick > 0 && s.opened && now >= s.nextTick:
		s.nextTick = now + int64(o.TickInterval)
		return s.h.Tick != nil
	}
	return false
}

// tick calls Tick.
func (s *Session) tick() {
	if tick := s.h.Tick; tick != nil && s.phase.Load() == phaseOpen {
		s.guard("tick", func() { tick(s) })
	}
}

// open calls Open.
func (s *Session) open() bool {
	s.out.Lock()
	s.opened = true
	if s.nextTick > 0 {
		s.armLocked()
	}
	s.out.Unlock()
	s.opening()
	var err error
	if open := s.h.Open; open != nil && !s.guard("open", func() { err = open(s) }) {
		return false
	}
	if err == nil {
		s.hasOpened()
		if s.h.Pull && !s.leavesExecutor() {
			s.awaitFirst()
		}
		return true
	}
	s.srv.refused(s.RemoteAddr(), err)
	s.end(&CloseInfo{By: ByRefusal, Err: err}, nil, closeNow)
	return false
}

// hasOpened is called when Open has returned. It makes the calls of Drain and Writable that came due before.
func (s *Session) hasOpened() {
	s.out.Lock()
	s.ready = true
	drain := s.drainOwed && s.phase.Load() == phaseOpen
	s.drainOwed = false
	if s.out.IsWritableDue() {
		(*owner)(s).Writable()
	}
	s.out.Unlock()
	if drain {
		s.drainOnce()
	}
}

// receive handles all complete messages after n bytes have arrived, and reports whether to go on reading. Sent frames are corked.
func (s *Session) receive(n int) bool {
	s.countRead(n)
	return s.goesOnAfter(s.handle())
}

func (s *Session) countRead(n int) { s.srv.shard(s).bytesIn.Add(uint64(n)) }

// goesOnAfter reports whether to go on reading after handle has returned an error or nil.
func (s *Session) goesOnAfter(err error) bool {
	if err != nil {
		return s.decodeEnded(err)
	}
	return s.phase.Load() != phaseClosed
}

// decodeEnded ends a session whose input cannot be decoded. It reports whether to go on reading.
func (s *Session) decodeEnded(err error) bool {
	last, err := splitReplies(err)
	by := ByError
	if errors.Is(err, io.EOF) {
		by = ByPeer
	}
	s.awaitAnswer()
	s.out.Lock()
	over := s.phase.Load() != phaseOpen && !s.peerEndedLocked() // this side has ended the session, and this is the peer's end
	s.endLocked(&CloseInfo{By: by, Err: decodeFailed(err)}, last, linger)
	s.out.Unlock()
	if over {
		return false
	}
	// Closing a socket with unread bytes would reset the connection, and the peer might never get the replies.
	s.discardInput = true
	s.in.Release()
	return true
}

// lastReplies is the error of an input that cannot be decoded, with the codec's last replies, which have not been written.
type lastReplies struct {
	error
	frame []byte
}

// handle decodes and calls Message until no whole message is left. If the codec has replied before an error, the error is a *lastReplies.
func (s *Session) handle() (err error) {
	done := false
	defer func() { // deferred, because a handler may end the goroutine
		if s.handled > 0 {
			s.srv.shard(s).messages.Add(uint64(s.handled))
			s.handled = 0
		}
		if !done {
			s.panicked("message", recover())
			err = nil
		}
	}()
	err = s.decodeAll()
	done = true
	return err
}

// decodeAll is handle without its guard. Replies are returned inside the error, because further results would take stack from the handler.
func (s *Session) decodeAll() error {
	var replies *lastReplies
	for in := &s.in; len(in.Unread()) >= max(in.Need, 1); {
		if s.discardInput || s.phase.Load() == phaseClosed {
			in.Discard(len(in.Unread()))
			return nil
		}
		if s.leavesExecutor() || s.pauses() {
			return nil
		}
		if s.codec == nil {
			return ErrNoCodec
		}
		unread := in.Unread()
		msg, n, err := s.codec.Decode(unread)
		if err != nil { // the replies may end the stream, so the receiver has to send its answer before them
			s.awaitAnswer()
		}
		if s.replier != nil {
			replies = s.takeReplies(replies)
		}
		switch {
		case err != nil:
			return withReplies(err, replies)
		case n > len(unread):
			return withReplies(usedTooMuch(n, len(unread)), replies)
		case n <= 0:
			in.Need = len(unread) + max(-n, 1)
			if in.Need > in.Limit || in.Need < 0 {
				return withReplies(tooLarge("at least ", in.Need), replies)
			}
		}
		if replies != nil && len(replies.frame) > 0 {
			s.reply(replies.frame)
			replies.frame = replies.frame[:0]
		}
		if n > 0 {
			in.Discard(n)
			if s.firstWait {
				s.endFirstWait()
			}
		}
		if len(msg) > s.o.MaxMessage {
			return tooLarge("", len(msg))
		}
		if msg != nil && s.phase.Load() == phaseOpen {
			s.handled++
			switch {
			case s.h.Message != nil:
				s.h.Message(s, msg)
			case s.h.Pull:
				s.deliver(msg)
			}
		}
	}
	return nil
}

// takeReplies returns the codec's replies, in the memory of r if that is not nil. It is not inlined, to keep the frame of decodeAll small.
//
//go:noinline
func (s *Session) takeReplies(r *lastReplies) *lastReplies {
	var frame []byte
	if r != nil {
		frame = r.frame
	}
	if frame = s.replier.AppendReplies(frame); r == nil && len(frame) == 0 {
		return nil
	}
	if r == nil {
		r = new(lastReplies)
	}
	r.frame = frame
	return r
}

//go:noinline
func withReplies(err error, r *lastReplies) error {
	if r == nil || len(r.frame) == 0 {
		return err
	}
	r.error = err
	return r
}

// splitReplies splits an error of handle into replies and cause.
func splitReplies(err error) (replies []byte, cause error) {
	if with, ok := err.(*lastReplies); ok { //nolint:errorlint // it is never wrapped
		return with.frame, with.error
	}
	return nil, err
}

//go:noinline
func usedTooMuch(n, of int) error { return fmt.Errorf("codec used %d bytes of %d", n, of) }

//go:noinline
func tooLarge(atLeast string, n int) error {
	return fmt.Errorf("%w: %s%d bytes", ErrTooLarge, atLeast, n)
}

// endFirstWait ends the wait for first bytes, because the codec has used some.
func (s *Session) endFirstWait() {
	s.out.Lock()
	s.firstWait = false
	if s.phase.Load() == phaseOpen {
		s.endBy = 0 // a timer that is set finds nothing to do
	}
	s.out.Unlock()
}

// reply writes the codec's replies, whatever the policy.
func (s *Session) reply(frame []byte) {
	if s.packet != nil {
		_ = s.packet.write(frame)
		return
	}
	s.out.Reply(frame)
}

// readEnded is called when the peer has ended the stream (io.EOF), or reading has failed.
func (s *Session) readEnded(err error) {
	if !errors.Is(err, io.EOF) {
		s.out.Lock()
		s.reset = errors.Is(err, syscall.ECONNRESET)
		s.failLocked(ByError, &readError{err})
		s.out.Unlock()
		return
	}
	if len(s.in.Unread()) > 0 {
		err = io.ErrUnexpectedEOF
	}
	s.awaitAnswer()
	s.end(&CloseInfo{By: ByPeer, Err: err}, nil, closeNow)
}

// readError formats its text only when Error is called, because thousands of connections may be reset at once.
type readError struct{ err error }

func (e *readError) Error() string { return "session: read: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }
