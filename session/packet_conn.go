package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
)

// packetConn is the engine of a session over datagrams. It is one peer of a socket.
type packetConn struct {
	s   *Session
	reg datagram.Registration

	// Guarded by the session's mutex.
	sending      int32 // callers that wait for room
	writableOwed bool  // Writable is called as soon as the socket has room
}

var (
	_ engineConn      = (*packetConn)(nil)
	_ datagram.Member = (*packetConn)(nil)
)

// newPacketConn makes the engine of s.
func newPacketConn(s *Session, k *datagram.Socket, o *settings, other *datagram.OtherAddr) *packetConn {
	p := &packetConn{s: s}
	p.reg.Init(k, p, other)
	s.packet, s.c, s.o = p, p, o
	s.out.SetConfig(&o.writer)
	s.in.Limit = o.MaxMessage + headerSlack
	return p
}

// start begins a session that was dialed.
func (p *packetConn) start() {
	p.s.srv.sockets.Add(p.reg.Socket())
	p.s.out.Lock()
	p.s.startClocksLocked()
	p.s.out.Unlock()
	p.reg.Socket().Start(p)
}

func (p *packetConn) reject() { p.reg.Socket().Conn().Close() }

func (p *packetConn) armLocked() {
	if due := p.s.dueLocked(); due > 0 {
		p.reg.SetTimer(due)
	}
}

func (p *packetConn) abortLocked() {
	if p.sending > 0 {
		p.reg.Socket().Sender().CheckEnded()
	}
}

func (p *packetConn) changedLocked() {
	if p.Ended() {
		p.reg.Changed(p.s.cancelTaskLocked())
	}
}

// resumeLocked does nothing: datagrams are not queued, so the Writer is never overloaded.
func (p *packetConn) resumeLocked() {}

func (p *packetConn) willBlockLocked() bool { return p.reg.Release() }

func (p *packetConn) execute() {
	p.s.task.running = true
	p.reg.Execute()
}

func (p *packetConn) net() net.Conn { return p.reg.Socket().Conn().Net() }

func (p *packetConn) remote() net.Addr {
	if other := p.reg.OtherAddr(); other != nil {
		return other
	}
	return net.UDPAddrFromAddrPort(p.s.peer)
}

func (p *packetConn) local() net.Addr { return p.reg.Socket().LocalAddr() }

// The methods that the socket calls: see [datagram.Member]. The methods that the Sender calls are in packet_send.go.

func (p *packetConn) Registration() *datagram.Registration { return &p.reg }

func (p *packetConn) Lock()         { p.s.out.Lock() }
func (p *packetConn) TryLock() bool { return p.s.out.TryLock() }
func (p *packetConn) Unlock()       { p.s.out.Unlock() }

func (p *packetConn) IsPulled() bool       { return p.s.pull != nil }
func (p *packetConn) UsesExecutor() bool   { return p.s.usesExecutorLocked() }
func (p *packetConn) LeavesExecutor() bool { return p.s.leavesExecutor() }
func (p *packetConn) InboxBytes() int      { return p.s.o.QueueBytes }
func (p *packetConn) IsQuiet() bool        { return p.s.quietLocked() }
func (p *packetConn) ConcludeAndUnlock()   { p.s.concludeAndUnlock() }
func (p *packetConn) TakeDrain() bool      { return p.s.takeDrainLocked() }
func (p *packetConn) Drain()               { p.s.drainOnce() }
func (p *packetConn) Fail(err error)       { p.s.fail(ByError, packetReadError(err)) }
func (p *packetConn) HandedOff()           { p.s.countHandOff() }
func (p *packetConn) Offloaded()           { p.s.srv.shard(p.s).moved.Add(1) }
func (p *packetConn) Lost()                { p.s.srv.shard(p.s).lost.Add(1) }
func (p *packetConn) Truncated()           { p.badDatagram(errTruncated) }

func (p *packetConn) SubmitAndUnlock() {
	p.s.task.begin(p.s.srv.clock())
	p.s.out.Unlock()
	p.s.srv.submit(p.s)
}

func (p *packetConn) RunEnded() {
	if p.s.task != nil {
		p.s.task.running = false
	}
}

func (p *packetConn) Received(now int64) {
	if p.s.o.IdleTimeout > 0 {
		p.s.lastRead.Store(now)
	}
}

func (p *packetConn) TimerFired() (tick bool) {
	tick = p.s.checkClocksLocked()
	p.s.armLocked()
	return tick
}

// Dispatch opens the session if it is new, and then does the work w.
func (p *packetConn) Dispatch(w datagram.Work) {
	s := p.s
	if !s.opened && !s.open() {
		return
	}
	if w.Tick {
		s.tick()
	}
	if w.Datagram != nil {
		p.receive(w.Datagram, w.N)
	}
}

// errIncomplete is the error of a datagram that ends in the middle of a message.
var errIncomplete = io.ErrUnexpectedEOF

// errTruncated is the error of a datagram that is larger than the buffer.
var errTruncated = errors.New("session: datagram is larger than Options.ReadBuffer")

// receive decodes and handles a datagram of n bytes, which lies in b.
func (p *packetConn) receive(b *buffer.Buffer, n int) {
	s := p.s
	s.srv.shard(s).bytesIn.Add(uint64(n))
	if p.Ended() {
		return
	}
	s.in.Borrow(b)
	s.in.Arrived(n)
	defer s.in.Release() // deferred, because a handler may end the goroutine
	replies, err := splitReplies(s.handle())
	rest := s.in.Unread()
	if err == nil && len(rest) > 0 && s.leavesExecutor() {
		p.reg.Unread(rest)
		rest = nil
	}
	if err == nil && len(rest) == 0 {
		return
	}
	if err != nil && len(replies) > 0 {
		_ = p.write(replies)
	}
	switch {
	case s.phase.Load() != phaseOpen:
	case errors.Is(err, io.EOF):
		s.end(&CloseInfo{By: ByPeer, Err: decodeFailed(err)}, nil, closeNow)
	case errors.Is(err, ErrNoCodec):
		s.fail(ByError, decodeFailed(err))
	case err != nil:
		p.badDatagram(decodeFailed(err))
	default:
		p.badDatagram(decodeFailed(errIncomplete))
	}
}

func decodeFailed(err error) error { return fmt.Errorf("session: decode: %w", err) }

// badDatagram counts a datagram that cannot be decoded, and tells the observer.
func (p *packetConn) badDatagram(err error) {
	p.s.srv.shard(p.s).bad.Add(1)
	if f := p.s.srv.observer.BadDatagram; f != nil {
		f(p.s, err)
	}
}

// The methods that the Writer calls: see [writer.Conn]. Only the last frame of a session goes through the Writer.

func (p *packetConn) Direct() bool     { return true }
func (p *packetConn) HasPending() bool { return false }
func (p *packetConn) CloseWrite() bool { return false }
func (p *packetConn) ArmWritable()     {}

// TryWrite sends the last frame of a session that ends.
func (p *packetConn) TryWrite(b *buffer.Batch) (int, error) {
	p.sendLast(bytes.Join(b.Parts, nil))
	return b.Size, nil
}

// TryWriteBig, BeginBig and EndBig are never called: a large frame is sent as one datagram, like any other.
func (p *packetConn) TryWriteBig(*buffer.BigFrame) (int, error) { return 0, nil }
func (p *packetConn) BeginBig(*buffer.BigFrame)                 {}
func (p *packetConn) EndBig(*buffer.BigFrame) bool              { return true }
