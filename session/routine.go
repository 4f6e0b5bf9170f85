package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
)

// routine is the carrier of the engine with goroutines: each session has one, in run, which reads, decodes and calls the handler, and
// is parked while the peer is silent. It needs nothing but a net.Conn. Its clock is the connection's read deadline, which only moves to be
// earlier: when it has passed the session is asked whether it is late. A second goroutine exists only while there is no room, in drain.
type routine Session

// own is what a session with a goroutine has more than others. The order is that of use: on 64-bit systems what each message takes lies in the
// first line of the cache.
type own struct {
	io stream // set when made, as is conn
	// Owned by the goroutine.
	streak  uint8 // reads in a row that found bytes at once
	worn    bool  // its stack may have grown
	spoke   bool  // the peer has sent something since that was asked last
	relieve bool  // another goroutine is to go on
	begun   bool  // there was one
	short   bool  // the last read brought something, and did not fill its buffer
	raw     raw   // the stream, if it is that

	conn net.Conn
	// Guarded by the session's mutex.
	freshAt int64         // when it is asked next
	armed   int64         // the deadline; 0 is none, −1 one that has passed
	drained chan struct{} // closed when something has changed; made by who waits
}

func (r *routine) session() *Session { return (*Session)(r) }

// crewKept is how many goroutines wait for sessions: a stack that has grown saves 3 µs of the 40 that a short connection takes.
const crewKept = 64

func (r *routine) start() { r.srv.crew.Give(r.session()) }

func (r *routine) reject() { _ = r.own.conn.Close() }

func (r *routine) direct() bool                       { return r.own.io.direct() }
func (r *routine) offer(b *buffer.Batch) (int, error) { return r.own.io.offer(b) }
func (r *routine) offerLarge(l *buffer.Large) (int, error) {
	return r.own.io.offerLarge(r.session(), l)
}

func (r *routine) holding() bool    { return false }
func (r *routine) closeWrite() bool { return r.own.io.closeWrite() }

func (r *routine) roomLocked() {
	s := r.session()
	s.helpLocked(s.drain)
}

func (r *routine) armLocked() {
	s := r.session()
	due, armed := sooner(s.dueLocked(), s.own.freshAt), s.own.armed
	if due == armed || armed > 0 && (due == 0 || armed < due) {
		return
	}
	var by time.Time
	if s.own.armed = due; due > 0 {
		by = s.srv.start.Add(time.Duration(due))
	}
	_ = s.own.conn.SetReadDeadline(by)
}

func (r *routine) abortLocked() {
	if rest := r.own.io.abort(); rest != nil {
		r.session().helpLocked(rest)
	}
}

func (r *routine) changedLocked() {
	if s := r.session(); s.phase.Load() == phaseClosed && s.retractLocked() {
		s.errand.done <- false
	}
	if r.own.drained != nil {
		close(r.own.drained)
		r.own.drained = nil
	}
}

func (r *routine) resumeLocked() { r.changedLocked() }

func (r *routine) yieldLocked() bool { return false }

func (r *routine) execute() {
	goOn := false
	r.errand.inside = true
	defer func() { // also when a handler ends the goroutine
		r.errand.inside = false
		r.errand.done <- goOn
	}()
	goOn = r.session().do(r.errand.part, r.errand.n)
}

func (r *routine) net() net.Conn    { return r.own.conn }
func (r *routine) remote() net.Addr { return r.own.conn.RemoteAddr() }
func (r *routine) local() net.Addr  { return r.own.conn.LocalAddr() }

// run is the goroutine of a session: the first, or one that goes on with a stack of its own.
func (s *Session) run() {
	defer s.finish()
	goOn := s.own.begun || s.greet() && s.begin()
	for s.own.begun = true; goOn && s.phase.Load() != phaseClosed; {
		goOn = s.catchUp() && s.goesOn(s.own.io.each(s))
	}
	if !s.own.relieve {
		s.waitWritten()
	}
}

// goesOn decides what becomes of a goroutine that has returned from reading: it reports whether it reads on.
func (s *Session) goesOn(err error) bool {
	switch {
	case err != nil:
		return s.readFailed(err) && !s.own.relieve
	case s.paused:
		return true
	case s.own.streak < yieldAfter:
		return false
	}
	s.in.Rest() // others may need the buffer meanwhile
	if s.own.streak = 0; s.own.freshAt == 0 {
		s.wear()
	} else {
		runtime.Gosched()
	}
	return true
}

// got is called when n bytes have arrived, and reports whether to go on reading.
func (s *Session) got(n int) bool {
	if s.o.IdleTimeout > 0 {
		s.lastRead.Store(s.srv.clock())
	}
	if s.errand != nil {
		if !s.delegate(partRead, n) {
			return false
		}
	} else {
		s.cork()
		goOn := s.receive(n)
		s.handledAll(true)
		if !goOn {
			return false
		}
	}
	if s.own.streak++; s.in.Rested {
		s.own.streak, s.in.Rested = 0, false
	}
	if s.own.spoke = true; !s.own.worn {
		s.own.worn, s.own.streak = true, yieldAfter
	}
	if s.nextTick > 0 && s.srv.clock() >= s.nextTick {
		s.own.streak = yieldAfter
	}
	return !s.pauses() && s.own.streak < yieldAfter && s.phase.Load() != phaseClosed
}

// yieldAfter is how many reads in a row may find bytes at once. Then others get a turn, and the clock is looked at: a peer that always
// has more to say would otherwise keep the processor until it is preempted.
const yieldAfter = 16

// begin opens the session and handles what came with the connection. It reports whether to go on reading.
func (s *Session) begin() bool {
	if s.errand != nil {
		return s.delegate(partOpen, 0) && (len(s.in.Unread()) == 0 || s.delegate(partFirst, 0))
	}
	return s.open() && (len(s.in.Unread()) == 0 || s.do(partFirst, 0))
}

// freshAfter is how long the peer has to be silent, at least, until the session's goroutine is relieved by another. A stack that has
// grown while messages were handled is not made as small again as a new one, and most of what an idle session costs is its stack.
const freshAfter = 10 * time.Second

// wear is called when the goroutine has handled something, so that its stack may have grown; not by who has just done that, because
// setting a deadline would take more stack still.
func (s *Session) wear() {
	s.mu.Lock()
	s.own.freshAt = s.srv.clock() + s.srv.freshAfter
	s.armLocked()
	s.mu.Unlock()
}

// weariedLocked looks whether the peer was silent all the time since it was last asked; then another goroutine is to go on.
func (s *Session) weariedLocked() {
	now := s.srv.clock()
	if s.own.freshAt == 0 || now < s.own.freshAt {
		return
	}
	if s.own.freshAt = now + s.srv.freshAfter; !s.own.spoke {
		s.own.relieve, s.own.worn, s.own.freshAt = true, false, 0
	}
	s.own.spoke = false
}

// greet does the TLS handshake, if there is one, so that Open can see its result, and starts the clocks. It reports whether to open the
// session: one that was dialed may be ending already, gently, and does so as if Open had been called before.
func (s *Session) greet() bool {
	if c, ok := s.own.conn.(shaker); ok && !s.shake(c) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.armed = -1 // the handshake had deadlines of its own
	s.startClocksLocked()
	return s.phase.Load() != phaseClosed
}

// shaker is a connection that begins with a handshake.
type shaker interface {
	net.Conn
	HandshakeContext(ctx context.Context) error
}

// shake does the handshake in time, and reports whether it succeeded. If not, the session is over.
func (s *Session) shake(c shaker) bool {
	if limit := s.o.HandshakeTimeout; limit > 0 {
		_ = c.SetDeadline(time.Now().Add(limit))
	}
	if err := c.HandshakeContext(context.Background()); err != nil {
		err = fmt.Errorf("session: TLS handshake: %w", err)
		s.srv.refused(s.RemoteAddr(), err)
		s.fail(ByError, err)
		return false
	}
	_ = c.SetDeadline(time.Time{})
	return true
}

// readFailed decides what an error of read means, and reports whether to go on reading.
func (s *Session) readFailed(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		s.ended(err)
		return false
	}
	s.mu.Lock()
	s.own.armed = -1
	tick := s.lateLocked()
	s.weariedLocked()
	s.armLocked()
	s.mu.Unlock()
	switch {
	case tick && s.errand != nil:
		return s.delegate(partTick, 0)
	case tick:
		s.tick()
	}
	return s.phase.Load() != phaseClosed
}

// waitWritten waits until nothing is left to write, or the session has ended, or its time is over. Not every change is the last: the goroutine
// that has written what was there before may end only now.
func (s *Session) waitWritten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over <-chan time.Time
	for !s.quitLocked() {
		changed := s.wakeMeLocked()
		if over == nil && s.endBy > 0 {
			timer := time.NewTimer(time.Duration(s.endBy - s.srv.clock()))
			defer timer.Stop()
			over = timer.C
		}
		s.mu.Unlock()
		select {
		case <-changed:
			s.mu.Lock()
		case <-over:
			s.mu.Lock()
			return
		}
	}
}

// wakeMeLocked returns a channel that changedLocked closes.
func (s *Session) wakeMeLocked() <-chan struct{} {
	if s.own.drained == nil {
		s.own.drained = make(chan struct{})
	}
	return s.own.drained
}

// finish is the end of run.
func (s *Session) finish() {
	if s.own.relieve {
		s.own.relieve = false
		go s.run()
		return
	}
	s.fail(ByLocal, ErrClosed)
	s.own.io.close()
	s.mu.Lock()
	for !s.quietLocked() { // a helper, or a caller of Send or TryWrite, is about to notice
		changed := s.wakeMeLocked()
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
	s.concludeLocked()
}

// drain writes what waits, waiting for the peer, and ends when nothing is left. The write deadline is moved with each bit of
// progress.
func (s *Session) drain() {
	b := buffer.NewBatch() // those of the pool may have memory for encoding, and this one is held while the peer does not read
	for first := true; ; first = false {
		l, more := s.lendDrain(b, first)
		if !more {
			return
		}
		var n int
		var err error
		if l != nil {
			n, err = s.own.io.pushLarge(s, l)
		} else {
			n, err = s.own.io.push(b)
		}
		s.srv.shard(s).bytesOut.Add(uint64(n))
		s.pushed(l, n, err)
	}
}

// lendDrain puts what waits into b, or returns the large frame at the front, and reports whether there is something to do. When first is
// set there is even if nothing waits: a drain goroutine is also started to wait for room.
func (s *Session) lendDrain(b *buffer.Batch, first bool) (l *buffer.Large, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.Clear()
	if l = s.frontLocked(); s.phase.Load() != phaseClosed && (l != nil || s.lendLocked(b) > 0 || first) {
		if l != nil {
			l.Lent = true
		}
		if t := s.o.WriteTimeout; t > 0 {
			_ = s.own.conn.SetWriteDeadline(time.Now().Add(t))
		}
		return l, true
	}
	s.putDownLocked()
	return nil, false
}

// pushed takes n written bytes off the queue, unless they were of l, which has seen to itself.
func (s *Session) pushed(l *buffer.Large, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil {
		s.writtenLocked(n)
	} else {
		defer s.offeredLocked(l, nil)
	}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.failLocked(ByTimeout, s.stalled())
	default:
		s.failLocked(ByError, fmt.Errorf("session: write: %w", err))
	}
}
