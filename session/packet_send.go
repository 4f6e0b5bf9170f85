package session

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// write sends a frame, which may be what the codec has to say.
func (p *packetPeer) write(frame []byte) error {
	p.s.mu.Lock()
	if err := p.s.errLocked(); err != nil {
		p.s.mu.Unlock()
		return err
	}
	return p.putLocked(frame)
}

// send encodes msg with e, or else the codec, and sends it.
func (p *packetPeer) send(e Encoder, msg []byte) error {
	s := p.s
	s.mu.Lock()
	e, err := s.encoderLocked(e)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	b := s.srv.pools.Batch()
	out, err := s.encodeLocked(e, nil, b.Scratch[:0], msg)
	if err != nil {
		s.mu.Unlock()
	} else {
		b.Scratch = out[:0]
		err = p.putLocked(out)
	}
	s.srv.pools.PutBatch(b)
	return err
}

// sendFile sends head and a part of a file as one datagram.
func (p *packetPeer) sendFile(head []byte, f *os.File, offset, size int64) error {
	if size > packetMax6 {
		return fmt.Errorf("session: write file: %w: %d bytes in a datagram", ErrTooLarge, size)
	}
	frame := make([]byte, len(head)+int(size))
	if _, err := f.ReadAt(frame[copy(frame, head):], offset); err != nil {
		return fmt.Errorf("session: write file: %w", err)
	}
	return p.write(frame)
}

// last sends the last frame of a session, without waiting where that is possible.
func (p *packetPeer) last(frame []byte) {
	p.s.mu.Lock()
	o := p.s.o
	if p.tooLarge(frame) != nil {
		p.s.droppedLocked(1)
		p.s.mu.Unlock()
		return
	}
	if !p.k.conn.gathers() {
		_ = p.sendAndWaitLocked(frame, o)
		return
	}
	gathered, full := p.k.out.gather(p, frame)
	if !gathered {
		if sent, _ := p.tryOne(frame); !sent {
			p.s.droppedLocked(1)
		}
	}
	p.s.mu.Unlock()
	if full {
		p.k.out.pour()
	}
}

func (p *packetPeer) tooLarge(frame []byte) error {
	most := packetMax4
	if at := p.s.seat.peer.Addr(); !at.Is4() {
		most = packetMax6
	}
	if p.text == "" && len(frame) > most {
		return fmt.Errorf("session: write: %w: %d bytes in a datagram", ErrTooLarge, len(frame))
	}
	return nil
}

// putLocked sends one datagram of an open session. It releases mu.
func (p *packetPeer) putLocked(frame []byte) error {
	s, o := p.s, &p.k.out
	if err := p.tooLarge(frame); err != nil {
		s.mu.Unlock()
		return err
	}
	if !p.k.conn.gathers() {
		return p.sendAndWaitLocked(frame, s.o)
	}
	if gathered, full := o.gather(p, frame); gathered {
		s.mu.Unlock()
		if full {
			o.pour()
		}
		return nil
	}
	sent, err := p.tryOne(frame)
	switch {
	case sent:
		s.mu.Unlock()
		return nil
	case err != nil:
		return p.failedLocked(err)
	case s.o.Policy != Wait:
		s.droppedLocked(1)
		s.mu.Unlock()
		return ErrQueueFull
	}
	return p.waitLocked(frame)
}

// tryOne sends one datagram without waiting. Without an error it may not have been sent because there is no room.
func (p *packetPeer) tryOne(frame []byte) (sent bool, err error) {
	o := &p.k.out
	if o.full() {
		return false, nil
	}
	c := o.call(p, frame)
	defer o.hangUp(c)
	n, err := p.k.conn.try(c.one[:])
	if n == 0 && p.k.single && nobodyListens(err) { // said of an earlier one; this one was not sent, and the session ends for it
		return false, err
	}
	if n == 1 {
		p.sent(len(frame))
	}
	return n == 1, err
}

// sent counts.
func (p *packetPeer) sent(n int) { p.s.srv.shard(p.s).bytesOut.Add(uint64(n)) }

// failedLocked says what an error of sending means. It releases mu.
func (p *packetPeer) failedLocked(err error) error {
	s := p.s
	if p.k.single && nobodyListens(err) {
		s.failLocked(ByError, fmt.Errorf("session: write: %w", err))
		err = s.errLocked()
	} else {
		err = packetError(err)
	}
	s.mu.Unlock()
	return err
}

// packetError is the system's error about one datagram.
func packetError(err error) error {
	if packetTooLarge(err) {
		return fmt.Errorf("session: write: %w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("session: write: %w", err)
}

// waitLocked waits until there is room. It is called with mu held, and releases it.
func (p *packetPeer) waitLocked(frame []byte) error {
	s, limit := p.s, p.s.o.WriteTimeout
	h := &heldPacket{p: p, data: frame, by: s.srv.by(limit), result: make(chan error, 1)}
	p.sending++
	p.k.out.hold(h)
	lost := p.takeOverLocked()
	s.mu.Unlock()
	if lost {
		s.wasTakenOver()
		p.k.out.pour()
	}
	return p.waited(<-h.result, limit)
}

// waited is the end of a wait for room, which was bounded by limit.
func (p *packetPeer) waited(err error, limit time.Duration) error {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p.sending--
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return s.errLocked()
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.droppedLocked(1)
		return fmt.Errorf("%w: no room for a datagram for %v", ErrTimeout, limit)
	}
	return packetError(err)
}

// sendAndWaitLocked sends one datagram over a socket that has no way to try. It is called with mu held, and releases it.
func (p *packetPeer) sendAndWaitLocked(frame []byte, o *settings) error {
	s, conn := p.s, p.k.conn
	p.sending++
	s.mu.Unlock()
	c := p.k.out.call(p, frame)
	var err error
	over := s.srv.clock() + int64(o.WriteTimeout)
	var deadline time.Time
	if o.WriteTimeout > 0 {
		deadline = s.srv.start.Add(time.Duration(over))
	}
	for {
		_ = conn.setWriteDeadline(deadline) // also none: another session's end may have let the last one pass
		if s.phase.Load() == phaseClosed {
			err = ErrClosed
			break
		}
		err = conn.send(&c.one[0], p.there)
		if !errors.Is(err, os.ErrDeadlineExceeded) || o.WriteTimeout > 0 && s.srv.clock() >= over {
			break
		}
	}
	p.k.out.hangUp(c)
	if err == nil {
		p.sent(len(frame))
	}
	return p.waited(err, o.WriteTimeout)
}

// tryWrite is TryWrite.
func (p *packetPeer) tryWrite(frames [][]byte) (taken int, err error) {
	s, k := p.s, p.k
	k.out.pour() // so that the order is kept
	for taken < len(frames) {
		s.mu.Lock()
		if err := s.errLocked(); err != nil {
			s.mu.Unlock()
			return taken, err
		}
		f := frames[taken]
		if err := p.tooLarge(f); err != nil {
			s.mu.Unlock()
			return taken, err
		}
		if !k.conn.gathers() {
			if err := p.sendAndWaitLocked(f, s.o); err != nil {
				return taken, err
			}
			taken++
			continue
		}
		sent, err := p.tryOne(f)
		switch {
		case err != nil:
			return taken, p.failedLocked(err)
		case sent:
			taken++
		case k.out.want(p, f, taken+1 < len(frames)):
			taken++
		}
		s.mu.Unlock()
		if !sent {
			return taken, nil
		}
	}
	return taken, nil
}
