package session

import (
	"fmt"

	"github.com/sluice-push/sluice/internal/writer"
)

// Send encodes msg with the session's codec and writes it. The caller may change msg when Send returns. If the connection does not take the
// frame at once, it is queued, and if the queue is full, Options.Policy decides. A nil error means that the frame was accepted, not that it has
// arrived. The errors are [ErrClosed] with the cause, [ErrQueueFull], [ErrTimeout] (Wait; it has ended the session), and those of the codec,
// after which the session goes on.
func (s *Session) Send(msg []byte) error {
	if s.packet != nil {
		return s.packet.send(nil, msg)
	}
	return s.out.Send(nil, msg)
}

// SendAs is [Session.Send] with the encoder e instead of the codec, for protocols with several kinds of messages: text and binary, compressed or
// not. Calls of e and of the codec come one at a time and in the order of the bytes, so both may share a state, as compression does. That holds
// unless encoded frames are dropped: by DropOldest, or as datagrams. If e is also a [Prefixer], large messages are written without being copied.
// It must not call the session. A nil e is the codec.
func (s *Session) SendAs(e Encoder, msg []byte) error {
	if s.packet != nil {
		return s.packet.send(e, msg)
	}
	return s.out.Send(e, msg)
}

// Write writes a frame that is already encoded. In all other respects it is [Session.Send].
func (s *Session) Write(frame []byte) error { return s.writeFrame(frame, false) }

// WriteShared is [Session.Write] for a frame that never changes any more. The frame may be kept, without being copied, until it is written, and
// may be written to many sessions at the same time.
func (s *Session) WriteShared(frame []byte) error { return s.writeFrame(frame, true) }

func (s *Session) writeFrame(frame []byte, shared bool) error {
	if s.packet != nil {
		return s.packet.write(frame)
	}
	return s.out.Write(frame, shared)
}

// TryWrite offers frames, in order, and returns how many were taken. It never blocks, and queues no whole frames. A frame is taken once the
// connection has taken at least one byte of it. The rest of a partly taken frame is kept, not copied, and sent before anything else. So the
// frames must never be changed. While frames wait to be written, TryWrite takes none.
//
// Over TLS on an event loop, a record of up to 16 KiB counts as taken as soon as it is encrypted. Some connections cannot be written without
// blocking: all but TCP and Unix sockets on Linux, and TLS connections that were made elsewhere. There frames are kept whole while less than 64
// KiB waits, and count as taken.
//
// If fewer than all were taken, Writable of the handler is called once there is room again: exactly once for any number of refusals before it.
// The error is [ErrClosed] with the cause; then Writable is not called.
func (s *Session) TryWrite(frames [][]byte) (taken int, err error) {
	if s.packet != nil {
		return s.packet.tryWrite(frames)
	}
	return s.out.TryWrite(frames)
}

// Queued returns how many bytes wait to be written because the connection took no more. Bytes that are being written count, and large frames do
// not. Over datagrams, which are not queued, it returns 0.
func (s *Session) Queued() int { return s.out.Queued() }

// owner is a session as its Writer sees it: see [writer.Owner].
type owner Session

func (o *owner) session() *Session { return (*Session)(o) }

func (o *owner) Conn() writer.Conn { return o.c }

func (o *owner) Err() error { return o.session().errLocked() }

// Fail ends the session because a write has failed, or the peer is too slow.
func (o *owner) Fail(reason writer.Reason, err error) {
	switch s := o.session(); reason {
	case writer.TooSlow:
		s.failLocked(BySlow, err)
	case writer.TimedOut:
		s.failLocked(ByTimeout, fmt.Errorf("%w: %w", ErrTimeout, err))
	default:
		s.failLocked(ByError, fmt.Errorf("session: %w", err))
	}
}

// Wrote counts what the connection took. Over datagrams the Writer writes the last frame only, and the socket counts that.
func (o *owner) Wrote(n int) {
	if o.packet == nil {
		o.srv.shard(o.session()).bytesOut.Add(uint64(n))
	}
}

func (o *owner) Lost(n int) { o.info.Undelivered += n }

func (o *owner) Dropped(n int) { o.session().droppedLocked(n) }

func (o *owner) Now() int64 { return o.srv.clock() }

// Drained goes on with the end of the session, because the Writer is idle.
func (o *owner) Drained() {
	s := o.session()
	switch {
	case s.phase.Load() == phaseClosed:
		s.c.changedLocked() // concludeAndUnlock waits for the Writer, and then releases the queue
	case !s.unreportedLocked():
		s.allWrittenLocked()
	}
}

// Writable starts a goroutine that calls Writable of the handler. If one is running, or Open has not returned, the call is made later.
func (o *owner) Writable() {
	s := o.session()
	if s.ready && !s.notifying {
		s.notifying = true
		s.helpLocked(s.notify)
	}
}

// Resumed lets messages be handled again. The session did not read meanwhile, so the timeouts for a silent peer start again.
func (o *owner) Resumed() {
	s := o.session()
	s.resetClocksLocked()
	s.c.resumeLocked()
}

func (o *owner) WillBlock() bool { return o.c.willBlockLocked() }

func (o *owner) HandedOff() { o.session().countHandOff() }

// HoldCork adds the session to the watchdog, which pulls the corks of slow handlers. On an event loop that is not needed: a handler that is slow
// there loses the loop, and HandedOff pulls its cork.
func (o *owner) HoldCork() bool {
	if o.loop.reg.OnLoop {
		return true
	}
	o.slot = uint8(o.srv.watchdog.enter(o.session()) + 1)
	return o.slot != 0
}

func (o *owner) ReleaseCork() {
	if o.slot != 0 {
		o.srv.watchdog.corked.Remove(int(o.slot) - 1)
		o.slot = 0
	}
}

var _ writer.Owner = (*owner)(nil)
