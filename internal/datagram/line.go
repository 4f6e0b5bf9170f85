package datagram

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// heldBytes bounds what was gathered and waits for room.
const heldBytes = 256 << 10

// ErrEnded is what is told who waits to send to a Peer that has ended.
var ErrEnded = errors.New("datagram: the peer to send to has ended")

// held is a datagram that waits for room.
type held struct {
	p      Peer
	data   []byte
	by     time.Time  // when it is given up; zero is never
	result chan error // capacity 1; nil when nobody waits
}

// after returns when limit has passed; zero, which is never, if there is none.
func after(limit time.Duration) (by time.Time) {
	if limit > 0 {
		by = time.Now().Add(limit)
	}
	return by
}

// passed reports whether the time has come.
func passed(by, now time.Time) bool { return !by.IsZero() && !now.Before(by) }

// Wait puts a datagram into the line, behind all that wait already, and returns where its end is told, once: nil when it was sent,
// ErrEnded, an os.ErrDeadlineExceeded when there was no room within limit (zero is forever), or the system's error. The data is borrowed
// until then.
func (sd *Sender) Wait(p Peer, data []byte, limit time.Duration) <-chan error {
	h := &held{p: p, data: data, by: after(limit), result: make(chan error, 1)}
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.holdLocked(h)
	return h.result
}

// Late is for data that TrySend had no room for, and reports whether it was taken nevertheless, for limit: somebody has to find out when
// there is room, and only who sends does. Data that is taken is the Sender's until it is sent or dropped. With more to come, or when it
// was not taken, Writable is owed.
func (sd *Sender) Late(p Peer, data []byte, more bool, limit time.Duration) (taken bool) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	taken = !sd.draining
	if (more || !taken) && p.Want() {
		sd.wanting = append(sd.wanting, p)
	}
	if taken {
		sd.holdLocked(&held{p: p, data: data, by: after(limit)})
	}
	return taken
}

// SendAndWait sends one datagram over a socket that has no way to try, for at most limit; zero is forever. Its errors are those of
// Wait. The caller must hold nothing that a Peer locks.
func (sd *Sender) SendAndWait(p Peer, data []byte, limit time.Duration) error {
	at, other := p.Address()
	c := sd.call(at, data)
	defer sd.hangUp(c)
	by := after(limit)
	for {
		_ = sd.o.Conn.SetWriteDeadline(by) // also none: another peer's end may have let the last one pass
		if p.Ended() {
			return ErrEnded
		}
		err := sd.o.Conn.Send(&c.one[0], other)
		if err == nil {
			p.Sent(len(data))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || passed(by, time.Now()) {
			return err
		}
	}
}

// Poke has those who wait looked through: a Peer of theirs has ended.
func (sd *Sender) Poke() {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	_ = sd.o.Conn.SetWriteDeadline(time.Unix(1, 0))
}

// keepRestLocked puts what was gathered, and finds no room, into the line, as far as the options say so.
func (sd *Sender) keepRestLocked(done int, dropped []Peer) []Peer {
	for i, packet := range sd.packets[done:] {
		p := sd.from[done+i]
		if !sd.o.Waits || sd.weight+len(packet.Data) > heldBytes {
			dropped = append(dropped, p)
			continue
		}
		sd.holdLocked(&held{p: p, data: bytes.Clone(packet.Data), by: after(sd.o.WriteTimeout)})
	}
	return dropped
}

func (sd *Sender) holdLocked(h *held) {
	sd.held = append(sd.held, h)
	if h.result == nil {
		sd.weight += len(h.data)
	}
	if !sd.draining {
		sd.draining = true
		sd.o.Go(sd.drain)
	}
}

// drain sends what is in the line, waiting for room, and ends when it is empty.
func (sd *Sender) drain() {
	for h := sd.first(); h != nil; h = sd.first() {
		at, other := h.p.Address()
		c := sd.call(at, h.data)
		err := sd.o.Conn.Send(&c.one[0], other)
		sd.hangUp(c)
		if err == nil {
			h.p.Sent(len(h.data))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) { // otherwise first sees to it
			sd.settle(h, err)
		}
	}
}

// first gives up what has waited too long, and returns the first that may still be sent. Without one all who want to write are told.
func (sd *Sender) first() *held {
	sd.mu.Lock()
	now := time.Now()
	var by time.Time
	var lost []Peer
	kept := sd.held[:0]
	for _, h := range sd.held {
		switch {
		case h.p.Ended():
			sd.resultLocked(h, ErrEnded)
		case passed(h.by, now):
			if sd.resultLocked(h, os.ErrDeadlineExceeded); h.result == nil {
				lost = append(lost, h.p)
			}
		default:
			if by.IsZero() || !h.by.IsZero() && h.by.Before(by) {
				by = h.by
			}
			kept = append(kept, h)
		}
	}
	clear(sd.held[len(kept):])
	sd.held = kept
	var first *held
	var wanting []Peer
	if len(kept) > 0 {
		first = kept[0]
		_ = sd.o.Conn.SetWriteDeadline(by)
	} else {
		wanting, sd.wanting, sd.held, sd.draining = sd.wanting, nil, nil, false
	}
	sd.mu.Unlock()
	for _, p := range lost {
		p.Dropped()
	}
	for _, p := range wanting {
		p.Writable()
	}
	return first
}

// resultLocked tells who waits.
func (sd *Sender) resultLocked(h *held, err error) {
	if h.result != nil {
		h.result <- err
	} else {
		sd.weight -= len(h.data)
	}
}

// settle takes the first of the line out.
func (sd *Sender) settle(h *held, err error) {
	sd.mu.Lock()
	sd.held[0] = nil
	sd.held = sd.held[1:]
	sd.resultLocked(h, err)
	sd.mu.Unlock()
	if err != nil && h.result == nil {
		h.p.Dropped()
	}
}
