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

// Messages that are received instead of handled. For each message, the dispatching goroutine waits until a receiver asks, and gives it a copy.
// So a message leaves the stream only if a receiver gets it, and the receiver may keep the copy while the session goes on. Until the first
// message is asked for, nothing is read at all. On an event loop such sessions always run on goroutines, because they wait.

// pull connects the dispatching goroutine and the receiver.
type pull struct {
	ask   chan struct{}    // the receiver asks; received from only when there is a message, or none will follow
	got   chan receivedMsg // the message
	first chan struct{}    // closed when the first message has been asked for
	ended chan struct{}    // closed when no message follows; closed with the lock held

	waits       atomic.Bool // the dispatching goroutine waits for the receiver to ask
	outstanding atomic.Bool // the receiver has a message, and has not asked again

	busy  atomic.Bool    // there is a receiver, which owns the rest:
	asked bool           // first is closed
	from  *buffer.Buffer // the buffer of the last message, or nil
}

// receivedMsg is a copy of a message, and the buffer in which it lies, if that was borrowed.
type receivedMsg struct {
	msg  []byte
	from *buffer.Buffer
}

func newPull() *pull {
	return &pull{ask: make(chan struct{}), got: make(chan receivedMsg, 1), first: make(chan struct{}), ended: make(chan struct{})}
}

// Receive waits for the next message of a session whose handler says Pull. The message is valid until the next call. If the peer has ended the
// session in order, the error is io.EOF, perhaps wrapped with the codec's reason. That end takes effect when Receive is called after the last
// message, so the last message can still be answered. If the session has ended otherwise, the error is [ErrClosed] with the cause. If the
// context is done, Receive returns its error, wrapped, and the next call gets the message. [ErrReceiving] says that another goroutine is
// receiving or iterating, and [ErrNoPull] that the session's messages go to a handler. A function of the session's own handler must not call
// Receive, because no message comes while it runs.
func (s *Session) Receive(ctx context.Context) ([]byte, error) {
	p, err := s.acquirePull()
	if err != nil {
		return nil, err
	}
	defer p.busy.Store(false)
	return s.receiveOne(ctx, p)
}

// Messages iterates over the messages of a session whose handler says Pull. Each is valid until the next iteration. The variable that err points
// to is nil during the iteration. It stays nil if the peer ends the session in order, or the caller breaks out of the loop. Otherwise it becomes
// one of the errors of [Session.Receive]. After a break the session stays open, and its messages may be received later. Meanwhile it reads at
// most a buffer full, so that the peer is slowed down.
//
//	for msg := range s.Messages(ctx, &err) { … }
func (s *Session) Messages(ctx context.Context, err *error) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		*err = nil
		p, failed := s.acquirePull()
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

// acquirePull makes the caller the receiver.
func (s *Session) acquirePull() (*pull, error) {
	s.out.Lock()
	p := s.pull
	s.out.Unlock()
	switch {
	case p == nil:
		return nil, ErrNoPull
	case !p.busy.CompareAndSwap(false, true):
		return nil, ErrReceiving
	}
	return p, nil
}

// receiveOne does the work of Receive for the receiver.
func (s *Session) receiveOne(ctx context.Context, p *pull) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("session: receive: %w", err)
	}
	if !p.asked {
		p.asked = true
		close(p.first)
	}
	if p.outstanding.CompareAndSwap(true, false) {
		s.out.Lock()
		drain := s.takeDrainLocked()
		s.out.Unlock()
		if drain {
			s.drainOnce()
		}
	}
	if p.from != nil { // the receiver may wait for long, and holds no memory meanwhile
		p.from.Release()
		p.from = nil
	}
	select {
	case p.ask <- struct{}{}:
		return s.receiveAsked(p)
	case <-p.ended:
		return nil, s.endOfMessages()
	case <-ctx.Done():
		return nil, fmt.Errorf("session: receive: %w", ctx.Err())
	}
}

// receiveAsked returns the message that was asked for, or the reason why none follows.
func (s *Session) receiveAsked(p *pull) ([]byte, error) {
	var m receivedMsg
	select {
	case m = <-p.got:
	case <-p.ended:
		select {
		case m = <-p.got:
		default:
			return nil, s.endOfMessages()
		}
	}
	p.from = m.from
	return m.msg, nil
}

// endOfMessages returns the error for a receiver when no message follows.
func (s *Session) endOfMessages() error {
	s.out.Lock()
	defer s.out.Unlock()
	if s.info.By == ByPeer && errors.Is(s.info.Err, io.EOF) {
		return s.info.Err
	}
	return s.errLocked()
}

// awaitFirst waits until the first message is asked for, or none follows. The dispatching goroutine calls it.
func (s *Session) awaitFirst() {
	select {
	case <-s.pull.first:
		return
	default:
	}
	s.uncork() // the wait may be long
	s.pull.waits.Store(true)
	select {
	case <-s.pull.first:
	case <-s.pull.ended:
	}
	s.endReceiverWait()
}

// deliver waits until the receiver asks, and gives it a message. The dispatching goroutine calls it.
func (s *Session) deliver(msg []byte) {
	if p := s.pull; s.awaitReceiver() {
		own, from := s.srv.pools.CopyOf(msg)
		p.outstanding.Store(true)
		p.got <- receivedMsg{own, from}
	}
}

// awaitReceiver waits until the receiver asks, and reports whether it does. The dispatching goroutine calls it.
func (s *Session) awaitReceiver() bool {
	p := s.pull
	select {
	case <-p.ask:
		return true
	default:
	}
	s.uncork()
	p.waits.Store(true)
	defer s.endReceiverWait()
	select {
	case <-p.ask:
		return true
	case <-p.ended:
		return false
	}
}

// awaitAnswer waits until the receiver is done with the last message: it asks for the next one, or ends the session. Otherwise the end of the
// stream could overtake the answer to that message.
func (s *Session) awaitAnswer() {
	if p := s.pull; p != nil && p.outstanding.Load() {
		s.awaitReceiver()
	}
}

// endReceiverWait ends a wait for the receiver. The peer was not read during the wait, so its timeouts start again.
func (s *Session) endReceiverWait() {
	s.out.Lock()
	defer s.out.Unlock()
	s.pull.waits.Store(false)
	s.resetClocksLocked()
	s.armLocked()
}

// resetClocksLocked restarts the timeouts for a silent peer.
func (s *Session) resetClocksLocked() {
	if s.phase.Load() != phaseOpen {
		return
	}
	now := s.srv.clock()
	s.lastRead.Store(now)
	if s.firstWait && s.endBy > 0 {
		s.endBy = now + int64(s.o.FirstTimeout)
	}
}

// leaveOpenLocked is called before the phase changes from open to another.
func (s *Session) leaveOpenLocked() {
	if s.pull != nil && s.phase.Load() == phaseOpen {
		close(s.pull.ended)
	}
}

// pullLocked makes s a session whose messages are received.
func (s *Session) pullLocked() {
	if s.pull != nil {
		return
	}
	s.pull = newPull()
	s.out.NeverPause()
	if s.phase.Load() != phaseOpen {
		close(s.pull.ended)
	}
}
