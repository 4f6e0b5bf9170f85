package datagram

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// heldBytes bounds the bytes of datagrams that wait for room without a waiting caller.
const heldBytes = 256 << 10

// ErrEnded is the error of a caller that waits to send to a Peer that has ended.
var ErrEnded = errors.New("datagram: the peer's session has ended")

// held is a datagram that waits for room.
type held struct {
	p      Peer
	data   []byte
	by     time.Time  // when the Sender gives it up; zero is never
	result chan error // capacity 1; nil if no caller waits
}

// after returns the time at which limit has passed. If limit is zero, it returns the zero time, which means never.
func after(limit time.Duration) (by time.Time) {
	if limit > 0 {
		by = time.Now().Add(limit)
	}
	return by
}

// passed reports whether the time by has come. It never comes if by is zero.
func passed(by, now time.Time) bool { return !by.IsZero() && !now.Before(by) }

// Wait adds a datagram to the end of the line, and returns a channel that gets its result, once. The result is nil if the datagram was sent,
// ErrEnded, an os.ErrDeadlineExceeded if there was no room within limit (zero is no limit), or the system's error. The data is borrowed until
// then.
func (sd *Sender) Wait(p Peer, data []byte, limit time.Duration) <-chan error {
	h := &held{p: p, data: data, by: after(limit), result: make(chan error, 1)}
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.holdLocked(h)
	return h.result
}

// TryHold decides about data that TrySend had no room for, and reports whether the Sender has taken it, for limit at most. The Sender takes one
// such datagram, because only a goroutine that sends finds out when there is room. The Sender owns the data that it takes until the data is sent
// or dropped. If more is set, or the data is not taken, TryHold asks for a call of Writable: see Peer.Want.
func (sd *Sender) TryHold(p Peer, data []byte, more bool, limit time.Duration) (taken bool) {
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

// SendAndWait sends one datagram over a socket that cannot send without waiting, for at most limit. Zero is no limit. Its errors are those of
// Wait. The caller must not hold a lock that a Peer's methods take.
func (sd *Sender) SendAndWait(p Peer, data []byte, limit time.Duration) error {
	at, other := p.Address()
	c := sd.getCall(at, data)
	defer sd.putCall(c)
	by := after(limit)
	for {
		_ = sd.o.Conn.SetWriteDeadline(by) // also if it is zero: another peer's CheckEnded may have left a deadline in the past
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

// CheckEnded makes the Sender check its waiting datagrams, because a Peer has ended.
func (sd *Sender) CheckEnded() {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	_ = sd.o.Conn.SetWriteDeadline(time.Unix(1, 0))
}

// keepRestLocked handles corked datagrams, from index done on, that have found no room. As the options say, it adds them to the line, or appends
// their peers to dropped.
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

// drain sends the datagrams in the line, waiting for room, until the line is empty. It runs on a goroutine of its own.
func (sd *Sender) drain() {
	for h := sd.first(); h != nil; h = sd.first() {
		at, other := h.p.Address()
		c := sd.getCall(at, h.data)
		err := sd.o.Conn.Send(&c.one[0], other)
		sd.putCall(c)
		if err == nil {
			h.p.Sent(len(h.data))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) { // otherwise first ends the datagrams whose time has passed or whose peer has ended
			sd.settle(h, err)
		}
	}
}

// first ends the datagrams that have waited too long or whose peer has ended, and returns the first of the others. If there is none, it calls
// Writable of the peers that have asked for it, and the goroutine ends.
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

// resultLocked sends the result of a datagram to its caller, if one waits.
func (sd *Sender) resultLocked(h *held, err error) {
	if h.result != nil {
		h.result <- err
	} else {
		sd.weight -= len(h.data)
	}
}

// settle removes the first datagram of the line, whose result is err.
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
