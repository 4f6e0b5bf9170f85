package session

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// startClocksLocked begins to watch the time.
func (s *Session) startClocksLocked() {
	now := s.srv.clock()
	s.lastRead.Store(now)
	if s.handshake = s.handshake && s.o.FirstTimeout > 0; s.handshake && s.phase.Load() == phaseOpen {
		s.endBy = now + int64(s.o.FirstTimeout)
	}
	if s.o.TickInterval > 0 {
		s.nextTick = now + int64(s.o.TickInterval)
	}
	if s.dueLocked() > 0 {
		s.armLocked()
	}
}

// armLocked sees to it that lateLocked is called in time.
func (s *Session) armLocked() {
	if s.phase.Load() != phaseClosed {
		s.c.armLocked()
	}
}

// dueLocked returns when lateLocked should be called, by the server's clock; 0 is never.
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

// sooner is the earlier of two times, of which 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// lateLocked is called when a time has come that dueLocked told. Bytes that arrive do not move it, so it may be that the peer was
// not silent after all. It reports whether Tick is to be called.
func (s *Session) lateLocked() (tick bool) {
	switch { // it is not the peer who is silent
	case s.pull != nil && s.pull.waits.Load():
		s.forgiveLocked()
	case s.errand != nil && s.errand.owed:
		s.excuseLocked()
	case s.unwritten.Load() > 0:
		s.forgiveLocked()
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
	s.mu.Lock()
	s.opened = true
	if s.nextTick > 0 {
		s.armLocked()
	}
	s.mu.Unlock()
	s.opening()
	var err error
	if open := s.h.Open; open != nil && !s.guard("open", func() { err = open(s) }) {
		return false
	}
	if err == nil {
		s.hasOpened()
		if s.h.Pull && !s.leaves() {
			s.awaitFirst()
		}
		return true
	}
	s.srv.refused(s.RemoteAddr(), err)
	s.end(&CloseInfo{By: ByRefusal, Err: err}, nil, quits)
	return false
}

// hasOpened is called when Open has returned: what had to wait for that is done.
func (s *Session) hasOpened() {
	s.mu.Lock()
	s.ready = true
	drain := s.goodbye && s.phase.Load() == phaseOpen
	s.goodbye = false
	if s.pen == penFree && s.phase.Load() == phaseOpen {
		s.notifyLocked()
	}
	s.mu.Unlock()
	if drain {
		s.drainOnce()
	}
}

// receive handles all complete messages after n bytes have arrived, and reports whether to go on reading. The session is corked.
func (s *Session) receive(n int) bool {
	s.srv.shard(s).bytesIn.Add(uint64(n))
	err := s.handle()
	last := s.replies
	s.replies = nil
	if err == nil {
		return s.phase.Load() != phaseClosed
	}
	return s.undecoded(err, last)
}

// undecoded ends a session whose bytes cannot be decoded any more. It reports whether to go on reading.
func (s *Session) undecoded(err error, last []byte) bool {
	by := ByError
	if errors.Is(err, io.EOF) {
		by = ByPeer
	}
	s.awaitAnswer()
	s.mu.Lock()
	over := s.phase.Load() != phaseOpen && !s.byeLocked() // the peer's part of an ending that began here
	s.endLocked(&CloseInfo{By: by, Err: decodeFailed(err)}, last, lingers)
	s.mu.Unlock()
	if over {
		return false
	}
	// Closing a socket with unread bytes would reset the connection, and the peer might never see the replies.
	s.discard = true
	s.in.Drop()
	return true
}

// handle decodes and calls Message until no whole message is left.
func (s *Session) handle() (err error) {
	done := false
	defer func() { // also when a handler has ended the goroutine
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

// decodeAll returns what is wrong with the stream.
func (s *Session) decodeAll() error {
	for in := &s.in; len(in.Unread()) >= max(in.Need, 1); {
		if s.discard || s.phase.Load() == phaseClosed {
			in.Used(len(in.Unread()))
			return nil
		}
		if s.leaves() || s.pauses() {
			return nil
		}
		if s.codec == nil {
			return ErrNoCodec
		}
		unread := in.Unread()
		msg, n, err := s.codec.Decode(unread)
		if err != nil { // the codec may say goodbye, after which nothing may be sent
			s.awaitAnswer()
		}
		if s.replier != nil {
			s.replies = s.replier.AppendReplies(s.replies[:0])
		}
		switch {
		case err != nil:
			return err
		case n > len(unread):
			return usedTooMuch(n, len(unread))
		case n <= 0:
			in.Need = len(unread) + max(-n, 1)
			if in.Need > in.Limit || in.Need < 0 {
				return tooLarge("at least ", in.Need)
			}
		}
		if len(s.replies) > 0 {
			s.reply()
		}
		if n > 0 {
			in.Used(n)
			if s.handshake {
				s.heard()
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
				s.handOver(msg)
			}
		}
	}
	return nil
}

//go:noinline
func usedTooMuch(n, of int) error { return fmt.Errorf("codec used %d bytes of %d", n, of) }

//go:noinline
func tooLarge(atLeast string, n int) error {
	return fmt.Errorf("%w: %s%d bytes", ErrTooLarge, atLeast, n)
}

// heard ends the handshake: the codec has used bytes.
func (s *Session) heard() {
	s.mu.Lock()
	s.handshake = false
	if s.phase.Load() == phaseOpen {
		s.endBy = 0 // who looks then finds nothing to do
	}
	s.mu.Unlock()
}

// reply writes what the codec has to say, whatever the policy is. While something waits for room nothing more is decoded.
func (s *Session) reply() {
	if s.packet != nil {
		_ = s.packet.write(s.replies)
		return
	}
	s.mu.Lock()
	g := s.gatherLocked(len(s.replies))
	if s.phase.Load() != phaseOpen {
		s.mu.Unlock()
		return
	}
	if g != nil {
		g.Gather(s.replies, true)
		s.mu.Unlock()
		return
	}
	isFull := s.fullLocked(len(s.replies))
	s.addLocked(s.replies, false, true)
	if s.queuedLocked(); isFull || s.pen == penDraining {
		s.pauseNowLocked()
	}
	s.mu.Unlock()
}

// ended is called when reading has failed for good.
func (s *Session) ended(err error) {
	if !errors.Is(err, io.EOF) {
		s.mu.Lock()
		s.reset = errors.Is(err, syscall.ECONNRESET)
		s.failLocked(ByError, &readError{err})
		s.mu.Unlock()
		return
	}
	if len(s.in.Unread()) > 0 {
		err = io.ErrUnexpectedEOF
	}
	s.awaitAnswer()
	s.end(&CloseInfo{By: ByPeer, Err: err}, nil, quits)
}

// readError is put into words when somebody reads it: thousands of connections may be reset at once.
type readError struct{ err error }

func (e *readError) Error() string { return "session: read: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }
