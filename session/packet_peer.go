package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/slowness"
	"github.com/sluice-push/sluice/timingwheel"
)

// packetPeer is the carrier of a session over datagrams: one peer of a socket.
type packetPeer struct {
	// Set when made.
	s     *Session
	k     *packetSocket
	text  string   // of an address that is not of IP
	there net.Addr // that address, or nil

	// Guarded by the session's mutex.
	reader    *packetReader // that gave the turn inline, and has not lost the socket for it
	busy      bool          // somebody has the turn, or the executor is to have it
	owed      bool          // Tick is to be called in the next turn
	concluded bool
	pace      slowness.One // whether turns are given to goroutines
	inbox     datagram.Inbox
	sending   int  // callers that wait for room
	wants     bool // Writable is owed as soon as the socket has room

	posted bool // guarded by the socket's mutex
	timer  timingwheel.Node[*packetPeer]
}

func (p *packetPeer) direct() bool     { return true }
func (p *packetPeer) holding() bool    { return false }
func (p *packetPeer) closeWrite() bool { return false }

// offer sends the last frame of a session that ends; nothing else comes this way.
func (p *packetPeer) offer(b *buffer.Batch) (int, error) {
	p.last(bytes.Join(b.Parts, nil))
	return b.Size, nil
}

// offerLarge is never called: large frames are sent as others.
func (p *packetPeer) offerLarge(*buffer.Large) (int, error) { return 0, nil }

// start begins a session that was dialed: its first turn, in which it is opened, comes at once.
func (p *packetPeer) start() {
	k := p.k
	k.srv.sockets.add(k)
	k.welcome(p)
	k.post(p)
	go k.newReader().run()
}

func (p *packetPeer) reject() { p.k.conn.Close() }

func (p *packetPeer) roomLocked() {}

func (p *packetPeer) armLocked() {
	if due := p.s.dueLocked(); due > 0 {
		p.k.arm(p, due)
	}
}

func (p *packetPeer) abortLocked() {
	if p.sending > 0 {
		p.k.out.Poke()
	}
}

// resumeLocked has nothing to do: datagrams do not wait to be written.
func (p *packetPeer) resumeLocked() {}

func (p *packetPeer) changedLocked() {
	s := p.s
	if s.phase.Load() != phaseClosed || p.concluded {
		return
	}
	if s.retractLocked() {
		p.busy = false
	}
	if !p.busy {
		p.k.post(p)
	}
}

func (p *packetPeer) yieldLocked() bool { return p.takeOverLocked() }

func (p *packetPeer) net() net.Conn { return p.k.conn.Net() }

func (p *packetPeer) remote() net.Addr {
	if p.there != nil {
		return p.there
	}
	return net.UDPAddrFromAddrPort(p.s.seat.peer)
}

func (p *packetPeer) local() net.Addr { return p.k.here }

// mail is what a turn has to do.
type mail struct {
	buf  *buffer.Buffer // a datagram of n bytes
	n    int
	tick bool
}

// keepLocked puts a datagram into the inbox, or loses it.
func (p *packetPeer) keepLocked(data []byte) {
	in := &p.inbox
	if in.Count >= inboxMax || in.Count > 0 && in.Size+len(data) > p.s.o.QueueBytes {
		p.s.srv.shard(p.s).lost.Add(1)
		return
	}
	in.Put(p.k.letters.Write(data))
}

// slowLocked reports whether turns are not the reader's. That of a dialed socket has nobody else to serve.
func (p *packetPeer) slowLocked() bool {
	k := p.k
	return p.s.outsideLocked() || !k.single && (p.pace.Slow() || p.s.pull != nil || k.slow.Slow(k.now.Load()))
}

// run has the turn of a session: it does what m says, and then what has come meanwhile, up to a full inbox, and a turn is over. It
// reports whether there is more, which is the caller's to be done: the turn is not over then.
func (p *packetPeer) run(m mail) (more bool) {
	p.take(m)
	for range inboxMax {
		if p.s.leaves() {
			return true
		}
		l, tick, drain := p.next()
		if drain {
			p.s.drainOnce()
		}
		if l == nil && !tick {
			return false
		}
		if l == nil {
			p.take(mail{tick: true})
			continue
		}
		p.take(mail{buf: &l.Buffer, n: l.N, tick: tick})
		p.k.letters.Burn(l)
	}
	return true
}

// next returns what there is to do, or nothing, and then the turn is over, and perhaps the session.
func (p *packetPeer) next() (l *datagram.Letter, tick, drain bool) {
	s := p.s
	s.mu.Lock()
	if s.phase.Load() == phaseClosed {
		p.turnedLocked()
		return nil, false, false
	}
	l, tick = p.inbox.Take(), p.owed
	p.owed = false
	if l == nil && !tick {
		p.idleLocked()
		drain = s.owesDrainLocked()
	}
	s.mu.Unlock()
	return l, tick, drain
}

// idleLocked says that nobody has the turn.
func (p *packetPeer) idleLocked() {
	if p.busy = false; p.s.errand != nil {
		p.s.errand.inside = false
	}
}

// turnedLocked ends the turn of a session that is closed, and concludes it if nobody else is at work for it. It releases mu.
func (p *packetPeer) turnedLocked() {
	p.idleLocked()
	if !p.s.quietLocked() { // who is at work posts
		p.s.mu.Unlock()
		return
	}
	p.busy, p.concluded = true, true
	for l := p.inbox.Take(); l != nil; l = p.inbox.Take() {
		p.s.srv.shard(p.s).lost.Add(1)
		p.k.letters.Burn(l)
	}
	defer p.k.forget(p) // also when Close of the handler ends the goroutine
	p.s.concludeLocked()
}

// take is a part of a turn.
func (p *packetPeer) take(m mail) {
	s := p.s
	if s.phase.Load() == phaseClosed {
		if m.buf != nil {
			s.srv.shard(s).lost.Add(1)
		}
		return
	}
	if !s.opened && !s.open() {
		return
	}
	if m.tick {
		s.tick()
	}
	if m.buf != nil {
		p.receive(m.buf, m.n)
	}
}

// errIncomplete is what is wrong with a datagram that ends in the middle of a message.
var errIncomplete = io.ErrUnexpectedEOF

// errTruncated is what is wrong with a datagram that is larger than the buffer.
var errTruncated = errors.New("session: datagram is larger than Options.ReadBuffer")

// receive handles a datagram.
func (p *packetPeer) receive(b *buffer.Buffer, n int) {
	s := p.s
	s.srv.shard(s).bytesIn.Add(uint64(n))
	if s.phase.Load() == phaseClosed {
		return
	}
	s.in.Borrow(b)
	s.in.Arrived(n)
	defer s.in.Drop() // also when a handler has ended the goroutine
	err := s.handle()
	rest := s.in.Unread()
	if err == nil && len(rest) > 0 && s.leaves() {
		s.mu.Lock()
		p.inbox.PutFirst(p.k.letters.Write(rest))
		s.mu.Unlock()
		rest = nil
	}
	if err == nil && len(rest) == 0 {
		s.replies = nil
		return
	}
	if err != nil && len(s.replies) > 0 {
		_ = p.write(s.replies)
	}
	s.replies = nil
	switch {
	case s.phase.Load() != phaseOpen:
	case errors.Is(err, io.EOF):
		s.end(&CloseInfo{By: ByPeer, Err: decodeFailed(err)}, nil, quits)
	case errors.Is(err, ErrNoCodec):
		s.fail(ByError, decodeFailed(err))
	case err != nil:
		p.bad(decodeFailed(err))
	default:
		p.bad(decodeFailed(errIncomplete))
	}
}

func decodeFailed(err error) error { return fmt.Errorf("session: decode: %w", err) }

// bad counts a datagram that is not what it should be.
func (p *packetPeer) bad(err error) {
	p.s.srv.shard(p.s).bad.Add(1)
	if f := p.s.srv.observer.BadDatagram; f != nil {
		f(p.s, err)
	}
}

// giveAwayLocked has the executor, or else a goroutine of its own, take the turn of p, which is busy. It releases mu.
func (p *packetPeer) giveAwayLocked(m mail) {
	s := p.s
	if s.phase.Load() == phaseClosed {
		p.busy = false
		p.k.post(p)
		s.mu.Unlock()
		return
	}
	outside := s.outsideLocked()
	p.owed = p.owed || m.tick
	if outside {
		s.errand.owe(s.srv.clock())
	} else {
		p.k.begin()
	}
	s.mu.Unlock()
	s.srv.shard(s).moved.Add(1)
	if outside {
		s.srv.hire(s)
	} else {
		go p.away()
	}
}

// away is a turn on a goroutine of its own.
func (p *packetPeer) away() {
	defer p.k.end()
	done := false
	defer func() {
		if !done { // a handler has ended the goroutine
			p.dropTurn()
		}
	}()
	began := p.s.srv.clock()
	for more := true; more; {
		more = p.run(mail{})
	}
	done = true
	now := p.s.srv.clock()
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.pace.Judge(&p.k.slow, p.s.pull != nil, began, now) {
		p.k.slow.TookOver(now, 0)
	}
}

// dropTurn is the end of a turn whose goroutine ends: the reader does the rest.
func (p *packetPeer) dropTurn() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.concluded {
		return
	}
	p.idleLocked()
	p.k.post(p)
}

// execute is a turn by the executor. What comes after a full inbox is another errand, so that others get theirs; or what is to be received,
// which a goroutine of its own goes on with: see leaves.
func (p *packetPeer) execute() {
	p.s.errand.inside = true
	done := false
	defer func() {
		if !done {
			p.dropTurn()
		}
	}()
	more := p.run(mail{})
	done = true
	if more {
		p.s.mu.Lock()
		p.s.errand.inside = false
		p.giveAwayLocked(mail{})
	}
}
