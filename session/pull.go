package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Messages that are received instead of handled. Who has the turn of such a session waits, with each message, until somebody asks, and
// puts a copy into the memory of who does; so no message is taken that nobody gets, and a message belongs to the caller without
// holding the session up. Before the first message is asked for, nothing is read at all. On an event loop the turns are given
// to goroutines at once, because waiting is what they do.

// pull is where the one who has the turn meets the one who receives.
type pull struct {
	ask   chan struct{} // from the receiver; taken only when there is a message, or none will follow
	got   chan handed   // the message
	first chan struct{} // closed when somebody has asked
	over  chan struct{} // closed when no message comes any more; written under the session's mutex

	waits atomic.Bool // who has the turn waits to be asked
	out   atomic.Bool // the receiver has a message, and has not asked again

	busy  atomic.Bool    // somebody receives, who owns:
	asked bool           // first is closed
	from  *buffer.Buffer // in which the last message lies, or nil
}

// handed is a copy of a message, and the buffer in which it lies, if that was borrowed.
type handed struct {
	msg  []byte
	from *buffer.Buffer
}

func newPull() *pull {
	return &pull{ask: make(chan struct{}), got: make(chan handed, 1), first: make(chan struct{}), over: make(chan struct{})}
}

// Receive waits for the next message of a session whose handler says Pull. The message is valid until the next call. When none comes
// any more the error is io.EOF, perhaps with the codec's reason around it, if the peer ended the session in order, which takes effect when
// Receive is called after the last message, so that this can still be answered; otherwise
// [ErrClosed] with the cause. The context's error, wrapped, loses no message: the next call gets it. [ErrReceiving] says that another
// goroutine is receiving, or iterating, [ErrNoPull] that the session's messages go to a handler. It must not be called by a
// function of the session's own handler, for which the message would have to wait.
func (s *Session) Receive(ctx context.Context) ([]byte, error) {
	p, err := s.takePull()
	if err != nil {
		return nil, err
	}
	defer p.busy.Store(false)
	return s.receiveOne(ctx, p)
}

// Messages iterates over the messages of a session whose handler says Pull. Each is valid until the next iteration. What err points to is nil while
// the iteration lasts, and when it has ended because the peer ended the session in order, or the caller has broken out of it; otherwise it is one of
// the errors of [Session.Receive]. Breaking out leaves the session open: what is not asked for is not read, beyond a buffer full, so that the
// peer feels it, and may be received later.
//
//	for msg := range s.Messages(ctx, &err) { … }
func (s *Session) Messages(ctx context.Context, err *error) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		*err = nil
		p, failed := s.takePull()
		if failed != nil {
			*err = failed
			return
		}
		defer p.busy.Store(false)
		for {
			msg, failed := s.receiveOne(ctx, p)
			if failed != nil && !errors.Is(failed, io.EOF) {
				*err = failed
			}
			if failed != nil || !yield(msg) {
				return
			}
		}
	}
}

// takePull makes the caller the one who receives.
func (s *Session) takePull() (*pull, error) {
	s.mu.Lock()
	p := s.pull
	s.mu.Unlock()
	switch {
	case p == nil:
		return nil, ErrNoPull
	case !p.busy.CompareAndSwap(false, true):
		return nil, ErrReceiving
	}
	return p, nil
}

func (s *Session) receiveOne(ctx context.Context, p *pull) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("session: receive: %w", err)
	}
	if !p.asked {
		p.asked = true
		close(p.first)
	}
	if p.out.CompareAndSwap(true, false) {
		s.mu.Lock()
		drain := s.owesDrainLocked()
		s.mu.Unlock()
		if drain {
			s.drainOnce()
		}
	}
	if p.from != nil { // no memory is held while the receiver waits
		p.from.Release()
		p.from = nil
	}
	select {
	case p.ask <- struct{}{}:
		return s.receiveAsked(p)
	case <-p.over:
		return nil, s.endOfMessages()
	case <-ctx.Done():
		return nil, fmt.Errorf("session: receive: %w", ctx.Err())
	}
}

// receiveAsked returns the message that was asked for, or says that none follows.
func (s *Session) receiveAsked(p *pull) ([]byte, error) {
	var m handed
	select {
	case m = <-p.got:
	case <-p.over:
		select {
		case m = <-p.got:
		default:
			return nil, s.endOfMessages()
		}
	}
	p.from = m.from
	return m.msg, nil
}

// endOfMessages says why none comes any more.
func (s *Session) endOfMessages() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.By == ByPeer && errors.Is(s.info.Err, io.EOF) {
		return s.info.Err
	}
	return s.errLocked()
}

// awaitFirst waits until the first message is asked for, or none will be. It is called by who has the turn.
func (s *Session) awaitFirst() {
	select {
	case <-s.pull.first:
		return
	default:
	}
	s.uncork(false) // nothing is held back meanwhile
	s.pull.waits.Store(true)
	select {
	case <-s.pull.first:
	case <-s.pull.over:
	}
	s.pulled()
}

// handOver gives a message to who asks for one. It is called by who has the turn.
func (s *Session) handOver(msg []byte) {
	if p := s.pull; s.awaitAsk() {
		own, from := s.srv.pools.CopyOf(msg)
		p.out.Store(true)
		p.got <- handed{own, from}
	}
}

// awaitAsk waits until the receiver asks, and reports whether it does. It is called by who has the turn.
func (s *Session) awaitAsk() bool {
	p := s.pull
	select {
	case <-p.ask:
		return true
	default:
	}
	s.uncork(false)
	p.waits.Store(true)
	defer s.pulled()
	select {
	case <-p.ask:
		return true
	case <-p.over:
		return false
	}
}

// awaitAnswer waits until the receiver has done with the last message: it asks for the next, or ends the session. The end of the
// stream must not overtake the answer to a message that is being handled.
func (s *Session) awaitAnswer() {
	if p := s.pull; p != nil && p.out.Load() {
		s.awaitAsk()
	}
}

// pulled ends a wait in which the peer's silence did not count.
func (s *Session) pulled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pull.waits.Store(false)
	s.forgiveLocked()
	s.armLocked()
}

// forgiveLocked starts the clocks anew that count how long the peer is silent.
func (s *Session) forgiveLocked() {
	if s.phase.Load() != phaseOpen {
		return
	}
	now := s.srv.clock()
	s.lastRead.Store(now)
	if s.handshake && s.endBy > 0 {
		s.endBy = now + int64(s.o.FirstTimeout)
	}
}

// leaveOpenLocked is called before the session stops being open.
func (s *Session) leaveOpenLocked() {
	if s.pull != nil && s.phase.Load() == phaseOpen {
		close(s.pull.over)
	}
}

// pullLocked makes the session one whose messages are received.
func (s *Session) pullLocked() {
	if s.pull != nil {
		return
	}
	s.pull = newPull()
	if s.phase.Load() != phaseOpen {
		close(s.pull.over)
	}
}
