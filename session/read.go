package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// run is the goroutine of a session: it reads, decodes and calls the handler, and while the peer is silent it is parked.
func (s *Session) run() {
	defer s.finish()
	if !s.greet() || !s.open() {
		s.waitWritten()
		return
	}
	if len(s.in.unread()) > 0 && !s.receive() {
		return
	}
	for s.phase.Load() != phaseClosed {
		s.in.rested = false
		n, err := s.c.read(&s.in)
		if n > 0 {
			s.srv.shard(s).bytesIn.Add(uint64(n))
			if s.srv.o.IdleTimeout > 0 {
				s.lastRead = time.Now()
			}
			if !s.receive() {
				return
			}
		}
		if err != nil && !s.readFailed(err) {
			return
		}
		s.yield()
	}
}

// yieldAfter is how many reads in a row may find bytes at once. Then others get a turn: a peer that always has more to say would
// otherwise keep the processor until it is preempted.
const yieldAfter = 16

func (s *Session) yield() {
	if s.in.rested {
		s.streak = 0
	} else if s.streak++; s.streak >= yieldAfter {
		s.streak = 0
		runtime.Gosched()
	}
}

// greet does the TLS handshake, if there is one, so that Open can see its result, and starts the clocks.
func (s *Session) greet() bool {
	limit := s.srv.o.HandshakeTimeout
	if c, ok := s.conn.(interface{ HandshakeContext(context.Context) error }); ok {
		if limit > 0 {
			_ = s.conn.SetDeadline(time.Now().Add(limit))
		}
		if err := c.HandshakeContext(context.Background()); err != nil {
			s.srv.shard(s).refused.Add(1)
			s.srv.o.Logger.Debug("session: TLS handshake failed", "remote", s.RemoteAddr().String(), "error", err)
			s.fail(ByError, fmt.Errorf("session: TLS handshake: %w", err))
			return false
		}
		_ = s.conn.SetDeadline(time.Time{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRead = time.Now()
	s.handshake = s.handshake && limit > 0
	if s.handshake || s.srv.o.IdleTimeout > 0 {
		s.armLocked()
	}
	return s.phase.Load() == phaseOpen
}

// armLocked sets the read deadline: the only one there is, so whatever ends first.
func (s *Session) armLocked() {
	var by time.Time
	switch idle := s.srv.o.IdleTimeout; {
	case s.phase.Load() == phaseEnding:
		by = s.endBy
	case s.handshake:
		by = s.lastRead.Add(s.srv.o.HandshakeTimeout)
	case idle > 0:
		by = s.lastRead.Add(idle)
	}
	_ = s.conn.SetReadDeadline(by)
}

// open calls Open.
func (s *Session) open() bool {
	s.opened = true
	s.srv.shard(s).opened.Add(1)
	if s.h.Open == nil {
		return true
	}
	var err error
	if !s.guard("open", func() { err = s.h.Open(s) }) {
		return false
	}
	if err == nil {
		return true
	}
	s.srv.shard(s).refused.Add(1)
	s.mu.Lock()
	s.endLocked(&CloseInfo{By: ByRefusal, Err: err}, nil, false)
	s.mu.Unlock()
	return false
}

// receive handles all complete messages that have arrived, and reports whether to go on reading.
func (s *Session) receive() bool {
	s.cork()
	err := s.handle()
	s.uncork()
	last := s.replies
	s.replies = nil
	if err == nil {
		return s.phase.Load() != phaseClosed
	}
	by := ByError
	if errors.Is(err, io.EOF) {
		by = ByPeer
	}
	s.mu.Lock()
	ending := s.phase.Load() != phaseOpen
	s.endLocked(&CloseInfo{By: by, Err: fmt.Errorf("session: decode: %w", err)}, last, s.srv.o.Linger > 0)
	s.mu.Unlock()
	if ending { // the peer's part of an ending that began here
		s.waitWritten()
		return false
	}
	// Closing a socket with unread bytes would reset the connection, and the peer might never see the replies.
	s.discard = true
	s.in.drop()
	return true
}

// handle decodes and calls Message until no whole message is left.
func (s *Session) handle() (err error) {
	done := false
	defer func() {
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
	for in := &s.in; len(in.unread()) >= max(in.need, 1); {
		if s.discard || s.phase.Load() == phaseClosed {
			in.used(len(in.unread()))
			return nil
		}
		if s.codec == nil {
			return ErrNoCodec
		}
		unread := in.unread()
		msg, n, err := s.codec.Decode(unread)
		if s.replier != nil {
			s.replies = s.replier.AppendReplies(s.replies[:0])
		}
		switch {
		case err != nil:
			return err
		case n > len(unread):
			return fmt.Errorf("codec used %d bytes of %d", n, len(unread))
		case n <= 0:
			in.need = len(unread) + max(-n, 1)
			if in.need > in.limit || in.need < 0 {
				return fmt.Errorf("%w: at least %d bytes", ErrTooLarge, in.need)
			}
		}
		if len(s.replies) > 0 {
			s.reply()
		}
		if n > 0 {
			in.used(n)
			s.heard()
		}
		if len(msg) > s.srv.o.MaxMessage {
			return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(msg))
		}
		if msg != nil && s.phase.Load() == phaseOpen {
			s.srv.shard(s).messages.Add(1)
			if s.h.Message != nil {
				s.h.Message(s, msg)
			}
		}
	}
	return nil
}

// heard ends the handshake: the codec has used bytes.
func (s *Session) heard() {
	if !s.handshake {
		return
	}
	s.handshake = false
	s.mu.Lock()
	if s.phase.Load() == phaseOpen {
		s.armLocked()
	}
	s.mu.Unlock()
}

// reply writes what the codec has to say. It waits for room whatever the policy is: until there is, nothing more is read.
func (s *Session) reply() {
	s.mu.Lock()
	if s.phase.Load() != phaseOpen {
		s.mu.Unlock()
		return
	}
	admitted, err := s.admitLocked(len(s.replies), Wait)
	if err == nil && !admitted {
		_ = s.wait(frame{b: append([]byte(nil), s.replies...), kept: true})
		return
	}
	if err == nil {
		s.addLocked(s.replies, false, true)
		s.queuedLocked()
	}
	s.mu.Unlock()
}

// readFailed decides what an error of read means, and reports whether to go on reading.
func (s *Session) readFailed(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return s.late()
	}
	if !errors.Is(err, io.EOF) {
		s.fail(ByError, fmt.Errorf("session: read: %w", err))
		return false
	}
	if len(s.in.unread()) > 0 {
		err = io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	s.endLocked(&CloseInfo{By: ByPeer, Err: err}, nil, false)
	s.mu.Unlock()
	s.waitWritten()
	return false
}

// late is called when the read deadline has passed. Nothing moves the deadline when bytes arrive, so it may be that the peer was
// not silent after all.
func (s *Session) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, o := time.Now(), &s.srv.o
	switch {
	case s.phase.Load() == phaseClosed:
		return false
	case s.phase.Load() == phaseEnding:
		if now.Before(s.endBy) {
			s.armLocked()
			return true
		}
		s.failLocked(ByTimeout, ErrTimeout)
	case s.handshake:
		s.failLocked(ByTimeout, fmt.Errorf("%w: no handshake for %v", ErrTimeout, o.HandshakeTimeout))
	case o.IdleTimeout > 0 && now.Sub(s.lastRead) >= o.IdleTimeout:
		s.failLocked(ByTimeout, fmt.Errorf("%w: nothing received for %v", ErrTimeout, o.IdleTimeout))
	default:
		s.armLocked()
		return true
	}
	return false
}
