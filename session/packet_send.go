package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
)

// Sending a datagram. Package datagram corks it, sends it, or lets it wait for room. The session chooses between these, and turns errors into
// those of its callers. The exported methods are those of datagram.Peer.

// Address returns the address of the peer.
func (p *packetConn) Address() (at netip.AddrPort, other net.Addr) {
	return p.s.peer, p.reg.OtherAddr()
}

// Ended reports whether the session has ended.
func (p *packetConn) Ended() bool { return p.s.phase.Load() == phaseClosed }

// Sent counts the bytes of a datagram that the kernel has taken.
func (p *packetConn) Sent(n int) { p.s.srv.shard(p.s).bytesOut.Add(uint64(n)) }

// Dropped counts a datagram that was lost.
func (p *packetConn) Dropped() {
	p.s.out.Lock()
	p.s.droppedLocked(1)
	p.s.out.Unlock()
}

// Want records that Writable is to be called, and reports whether that is new. It runs inside TryHold, whose caller holds the lock.
func (p *packetConn) Want() (first bool) {
	first = !p.writableOwed
	p.writableOwed = true
	return first
}

// Writable calls Writable of the handler, if the session is still open.
func (p *packetConn) Writable() {
	s := p.s
	s.out.Lock()
	defer s.out.Unlock()
	if p.writableOwed = false; s.phase.Load() != phaseOpen {
		return
	}
	s.out.RequestWritable()
	(*owner)(s).Writable()
}

// write sends an encoded frame: one of a caller, or replies of the codec.
func (p *packetConn) write(frame []byte) error {
	p.s.out.Lock()
	if err := p.s.errLocked(); err != nil {
		p.s.out.Unlock()
		return err
	}
	return p.putAndUnlock(frame)
}

// send encodes msg and sends it. If e is nil, the codec encodes it.
func (p *packetConn) send(e Encoder, msg []byte) error {
	s := p.s
	s.out.Lock()
	if e == nil && s.codec != nil {
		e = s.codec
	}
	err := s.errLocked()
	if err == nil && e == nil {
		err = ErrNoCodec
	}
	if err != nil {
		s.out.Unlock()
		return err
	}
	b := s.srv.pools.Batch()
	out, err := p.encodeLocked(e, b.Scratch[:0], msg)
	if err != nil {
		s.out.Unlock()
	} else {
		b.Scratch = out[:0]
		err = p.putAndUnlock(out)
	}
	s.srv.pools.PutBatch(b)
	return err
}

// encodeLocked encodes msg with e. If e panics or ends the goroutine, the lock is released.
func (p *packetConn) encodeLocked(e Encoder, dst, msg []byte) (out []byte, err error) {
	done := false
	defer func() {
		if !done {
			p.s.out.Unlock()
		}
	}()
	out, err = e.AppendEncode(dst, msg)
	if done = true; err != nil {
		err = fmt.Errorf("session: encode: %w", err)
	}
	return out, err
}

// sendFile sends head and a part of a file as one datagram.
func (p *packetConn) sendFile(head []byte, f *os.File, offset, size int64) error {
	if size > datagram.Max6 {
		return fmt.Errorf("session: write file: %w: %d bytes in a datagram", ErrTooLarge, size)
	}
	frame := make([]byte, len(head)+int(size))
	if _, err := f.ReadAt(frame[copy(frame, head):], offset); err != nil {
		return fmt.Errorf("session: write file: %w", err)
	}
	return p.write(frame)
}

// sendLast sends the last frame of a session. It waits only if the socket cannot send without waiting.
func (p *packetConn) sendLast(frame []byte) {
	p.s.out.Lock()
	if p.tooLarge(frame) != nil {
		p.s.droppedLocked(1)
		p.s.out.Unlock()
		return
	}
	if !p.batches() {
		_ = p.sendBlockingAndUnlock(frame)
		return
	}
	corked, full := p.sender().TryCork(p, frame)
	if !corked {
		if sent, _ := p.sender().TrySend(p, frame); !sent {
			p.s.droppedLocked(1)
		}
	}
	p.s.out.Unlock()
	if full {
		p.sender().Flush()
	}
}

// tooLarge returns an error if a frame is larger than any datagram to this peer can be.
func (p *packetConn) tooLarge(frame []byte) error {
	most := datagram.Max4
	if at := p.s.peer.Addr(); !at.Is4() {
		most = datagram.Max6
	}
	if p.reg.OtherAddr() == nil && len(frame) > most {
		return fmt.Errorf("session: write: %w: %d bytes in a datagram", ErrTooLarge, len(frame))
	}
	return nil
}

// putAndUnlock sends one datagram of an open session, as the policy says. It releases the lock.
func (p *packetConn) putAndUnlock(frame []byte) error {
	s, o := p.s, p.sender()
	if err := p.tooLarge(frame); err != nil {
		s.out.Unlock()
		return err
	}
	if !p.batches() {
		return p.sendBlockingAndUnlock(frame)
	}
	if corked, full := o.TryCork(p, frame); corked {
		s.out.Unlock()
		if full {
			o.Flush()
		}
		return nil
	}
	sent, err := o.TrySend(p, frame)
	switch {
	case sent:
		s.out.Unlock()
		return nil
	case err != nil:
		return p.failedAndUnlock(err)
	case s.o.Policy != Wait:
		s.droppedLocked(1)
		s.out.Unlock()
		return ErrQueueFull
	}
	return p.waitAndUnlock(frame)
}

// failedAndUnlock returns the caller's error for an error of sending. If the peer's port is closed, it ends a dialed session. It releases the
// lock.
func (p *packetConn) failedAndUnlock(err error) error {
	s := p.s
	if p.reg.Socket().IsConnected() && datagram.PortClosed(err) {
		s.failLocked(ByError, fmt.Errorf("session: write: %w", err))
		err = s.errLocked()
	} else {
		err = packetError(err)
	}
	s.out.Unlock()
	return err
}

// packetError wraps an error of the system about one datagram.
func packetError(err error) error {
	if datagram.TooLarge(err) {
		return fmt.Errorf("session: write: %w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("session: write: %w", err)
}

// waitAndUnlock waits until the datagram has been sent, for at most WriteTimeout. It releases the lock before it waits.
func (p *packetConn) waitAndUnlock(frame []byte) error {
	s, limit := p.s, p.s.o.WriteTimeout
	p.sending++
	result := p.sender().Wait(p, frame, limit)
	lost := p.reg.Release()
	s.out.Unlock()
	if lost {
		s.countHandOff()
		p.sender().Flush()
	}
	return p.waitEnded(<-result, limit)
}

// waitEnded returns the caller's error after a wait for room that had the given limit.
func (p *packetConn) waitEnded(err error, limit time.Duration) error {
	s := p.s
	s.out.Lock()
	defer s.out.Unlock()
	p.sending--
	switch {
	case err == nil:
		return nil
	case errors.Is(err, datagram.ErrEnded):
		return s.errLocked()
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.droppedLocked(1)
		return fmt.Errorf("%w: no room for a datagram for %v", ErrTimeout, limit)
	}
	return packetError(err)
}

// sendBlockingAndUnlock sends one datagram over a socket that cannot send without waiting. It releases the lock before it sends.
func (p *packetConn) sendBlockingAndUnlock(frame []byte) error {
	limit := p.s.o.WriteTimeout
	p.sending++
	p.s.out.Unlock()
	return p.waitEnded(p.sender().SendAndWait(p, frame, limit), limit)
}

// tryWrite does the work of TryWrite.
func (p *packetConn) tryWrite(frames [][]byte) (taken int, err error) {
	s, o := p.s, p.sender()
	o.Flush() // corked datagrams were sent earlier, so they go first
	for taken < len(frames) {
		s.out.Lock()
		if err := s.errLocked(); err != nil {
			s.out.Unlock()
			return taken, err
		}
		f := frames[taken]
		if err := p.tooLarge(f); err != nil {
			s.out.Unlock()
			return taken, err
		}
		if !p.batches() {
			if err := p.sendBlockingAndUnlock(f); err != nil {
				return taken, err
			}
			taken++
			continue
		}
		sent, err := o.TrySend(p, f)
		switch {
		case err != nil:
			return taken, p.failedAndUnlock(err)
		case sent:
			taken++
		case o.TryHold(p, f, taken+1 < len(frames), s.o.WriteTimeout):
			taken++
		}
		s.out.Unlock()
		if !sent {
			return taken, nil
		}
	}
	return taken, nil
}

func (p *packetConn) sender() *datagram.Sender { return p.reg.Socket().Sender() }

// batches reports whether the socket sends batches, and can send without waiting.
func (p *packetConn) batches() bool { return p.reg.Socket().Conn().SendsBatches() }
