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

// What the outgoing side of the socket asks of a peer, and tells it.
var _ datagram.Peer = (*packetPeer)(nil)

// Address returns where datagrams go.
func (p *packetPeer) Address() (at netip.AddrPort, other net.Addr) { return p.s.seat.peer, p.there }

// Ended reports whether the session has.
func (p *packetPeer) Ended() bool { return p.s.phase.Load() == phaseClosed }

// Sent counts.
func (p *packetPeer) Sent(n int) { p.s.srv.shard(p.s).bytesOut.Add(uint64(n)) }

// Dropped counts a datagram that could not be sent.
func (p *packetPeer) Dropped() {
	p.s.mu.Lock()
	p.s.droppedLocked(1)
	p.s.mu.Unlock()
}

// Want is called by way of tryWrite, which holds the session's mutex.
func (p *packetPeer) Want() (first bool) {
	first = !p.wants
	p.wants = true
	return first
}

// Writable calls Writable, if it is owed.
func (p *packetPeer) Writable() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.wants = false; s.phase.Load() != phaseOpen {
		return
	}
	s.want = true
	s.notifyLocked()
}

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
	if size > datagram.Max6 {
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
	if p.tooLarge(frame) != nil {
		p.s.droppedLocked(1)
		p.s.mu.Unlock()
		return
	}
	if !p.k.conn.Gathers() {
		_ = p.sendAndWaitLocked(frame)
		return
	}
	gathered, full := p.k.out.Gather(p, frame)
	if !gathered {
		if sent, _ := p.k.out.TrySend(p, frame); !sent {
			p.s.droppedLocked(1)
		}
	}
	p.s.mu.Unlock()
	if full {
		p.k.out.Pour()
	}
}

func (p *packetPeer) tooLarge(frame []byte) error {
	most := datagram.Max4
	if at := p.s.seat.peer.Addr(); !at.Is4() {
		most = datagram.Max6
	}
	if p.text == "" && len(frame) > most {
		return fmt.Errorf("session: write: %w: %d bytes in a datagram", ErrTooLarge, len(frame))
	}
	return nil
}

// putLocked sends one datagram of an open session. It releases mu.
func (p *packetPeer) putLocked(frame []byte) error {
	s, o := p.s, p.k.out
	if err := p.tooLarge(frame); err != nil {
		s.mu.Unlock()
		return err
	}
	if !p.k.conn.Gathers() {
		return p.sendAndWaitLocked(frame)
	}
	if gathered, full := o.Gather(p, frame); gathered {
		s.mu.Unlock()
		if full {
			o.Pour()
		}
		return nil
	}
	sent, err := o.TrySend(p, frame)
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

// failedLocked says what an error of sending means. It releases mu.
func (p *packetPeer) failedLocked(err error) error {
	s := p.s
	if p.k.single && datagram.NobodyListens(err) {
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
	if datagram.TooLarge(err) {
		return fmt.Errorf("session: write: %w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("session: write: %w", err)
}

// waitLocked waits until there is room. It is called with mu held, and releases it.
func (p *packetPeer) waitLocked(frame []byte) error {
	s, limit := p.s, p.s.o.WriteTimeout
	p.sending++
	result := p.k.out.Wait(p, frame, limit)
	lost := p.takeOverLocked()
	s.mu.Unlock()
	if lost {
		s.wasTakenOver()
		p.k.out.Pour()
	}
	return p.waited(<-result, limit)
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
	case errors.Is(err, datagram.ErrEnded):
		return s.errLocked()
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.droppedLocked(1)
		return fmt.Errorf("%w: no room for a datagram for %v", ErrTimeout, limit)
	}
	return packetError(err)
}

// sendAndWaitLocked sends one datagram over a socket that has no way to try. It is called with mu held, and releases it.
func (p *packetPeer) sendAndWaitLocked(frame []byte) error {
	limit := p.s.o.WriteTimeout
	p.sending++
	p.s.mu.Unlock()
	return p.waited(p.k.out.SendAndWait(p, frame, limit), limit)
}

// tryWrite is TryWrite.
func (p *packetPeer) tryWrite(frames [][]byte) (taken int, err error) {
	s, k := p.s, p.k
	k.out.Pour() // so that the order is kept
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
		if !k.conn.Gathers() {
			if err := p.sendAndWaitLocked(f); err != nil {
				return taken, err
			}
			taken++
			continue
		}
		sent, err := k.out.TrySend(p, f)
		switch {
		case err != nil:
			return taken, p.failedLocked(err)
		case sent:
			taken++
		case k.out.Late(p, f, taken+1 < len(frames), s.o.WriteTimeout):
			taken++
		}
		s.mu.Unlock()
		if !sent {
			return taken, nil
		}
	}
	return taken, nil
}
