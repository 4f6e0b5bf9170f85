package session

import (
	"bytes"
	"fmt"
	"runtime/debug"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/stack"
)

// How a session ends. The first cause counts: it is put into info, under mu, by whoever comes first, and everything later leaves
// it alone.
//
//	open ----> ending ----> closed        End, EndWait, the peer's end, an error of the codec, a refusal by Open
//	     \----------------> closed        Close, Abort, time-outs, panics, errors of the connection
//
// Ending: what waits is still written, then (writtenOutLocked) the connection is half-closed and the peer has Linger to end its side;
// what it says meanwhile is decoded, because it may be the end of a closing handshake, but not handled. After EndWait that end is awaited
// first (byeLocked); then the connection is half-closed, and nothing is decoded any more. Closed: the socket is shut down, which wakes all
// who wait for it.
//
// Whoever has the turn concludes it, when nobody else is at work for the session: no helper (a goroutine that drains, notifies or
// aborts) and no one in the middle of a write. It calls Close of the handler, and leaves the server.

// failLocked closes the session now.
func (s *Session) failLocked(by By, err error) {
	if s.phase.Load() == phaseClosed {
		return
	}
	if s.info == nil {
		s.info = &CloseInfo{By: by, Err: err}
	}
	s.leaveOpenLocked()
	s.phase.Store(phaseClosed)
	s.turnAwayLocked()
	s.c.abortLocked()
	s.dropLargesLocked()
	s.c.changedLocked()
}

// fail is failLocked without mu held. What is gathered is offered to the connection first: it was sent before this call.
func (s *Session) fail(by By, err error) {
	s.mu.Lock()
	if s.pen == penFree && s.phase.Load() == phaseOpen {
		s.pourLocked()
	}
	s.failLocked(by, err)
	s.mu.Unlock()
}

// manner is what a gentle end does when all is written. Without Options.Linger it quits, and so it does over datagrams.
type manner uint8

const (
	quits   manner = iota // it closes the connection
	lingers               // it half-closes it, and waits for the peer to end
	awaits                // it waits for the peer's goodbye, and lingers
)

// end begins to end an open session: last is the last thing to be written.
func (s *Session) end(info *CloseInfo, last []byte, m manner) {
	s.mu.Lock()
	s.endLocked(info, last, m)
	s.mu.Unlock()
}

func (s *Session) endLocked(info *CloseInfo, last []byte, m manner) {
	if s.phase.Load() != phaseOpen {
		return
	}
	if s.o.Linger == 0 || s.packet != nil {
		m = quits
	}
	s.info, s.manner = info, m
	s.leaveOpenLocked()
	s.phase.Store(phaseEnding)
	s.endBy = s.srv.by(s.o.WriteTimeout + s.o.Linger)
	s.armLocked()
	s.turnAwayLocked()
	s.resumeLocked()
	if s.pen == penFree {
		s.spillLocked(0)
	}
	if len(last) > 0 {
		s.queueLocked().Add(buffer.Frame{B: bytes.Clone(last), At: s.now(), Kept: true})
	}
	switch {
	case s.pen != penFree:
	case s.c.direct():
		s.settleLocked(true)
	default:
		s.startDrainLocked()
	}
}

// writtenOutLocked goes on with an ending session when all is written.
func (s *Session) writtenOutLocked() {
	s.c.changedLocked()
	ok := s.manner == awaits
	if s.manner == lingers && !s.half {
		s.half = true
		s.pen = penWriting // nobody else may come here, or write, while mu is not held
		s.mu.Unlock()
		ok = s.c.closeWrite()
		s.mu.Lock()
		s.pen = penFree
		s.c.changedLocked()
		if ok && s.phase.Load() == phaseEnding && s.c.holding() {
			s.half = false // not yet
			s.startDrainLocked()
			return
		}
	}
	if ok && s.phase.Load() == phaseEnding && s.manner != quits {
		s.endBy = sooner(s.endBy, s.srv.clock()+int64(s.o.Linger))
		s.armLocked()
		return
	}
	s.failLocked(ByLocal, ErrClosed)
}

// byeLocked is called when the peer of an ending session has said goodbye, and reports whether that was awaited.
func (s *Session) byeLocked() bool {
	awaited := s.manner == awaits
	if awaited {
		s.manner = lingers
	}
	if awaited && s.pen == penFree && !s.unreportedLocked() && s.phase.Load() == phaseEnding {
		s.writtenOutLocked()
	}
	return awaited
}

// quitLocked is called when nothing will be read any more: the session is over as soon as all is written. It reports whether
// it is.
func (s *Session) quitLocked() bool {
	s.manner = quits
	return s.half || s.phase.Load() == phaseClosed || s.pen == penFree && s.q == nil && !s.unreportedLocked()
}

// quietLocked reports whether nobody is at work for a closed session but who has the turn.
func (s *Session) quietLocked() bool { return s.pen == penFree && s.helpers == 0 }

// concludeLocked is the last thing that happens to a session, by who has the turn. It releases mu.
func (s *Session) concludeLocked() {
	if g := s.gathered; g != nil { // a handler ended its goroutine
		s.lost += len(g.Scratch)
		s.gathered = nil
		s.srv.pools.PutBatch(g)
	}
	s.corked = false
	s.info.Undelivered = s.lost
	if s.q != nil {
		s.info.Undelivered += s.srv.pools.PutQueue(s.q)
		s.q = nil
	}
	if s.slot != 0 {
		s.srv.watch.corked.Leave(int(s.slot) - 1)
		s.slot = 0
	}
	info := *s.info
	s.mu.Unlock()
	s.in.Drop()
	defer s.done.Done() // also when Close of the handler ends the goroutine
	defer s.srv.leave(s)
	if !s.opened {
		return
	}
	defer s.closed(&info)
	if s.h.Close != nil {
		s.guard("close", func() { s.h.Close(s, &info) })
	}
}

// guard calls a function of the handler and reports whether it returned. A panic ends the session.
func (s *Session) guard(name string, f func()) (ok bool) {
	defer func() {
		if !ok {
			s.panicked(name, recover())
		}
	}()
	f()
	return true
}

// panicked ends the session because the function called name panicked with v, or ended its goroutine, which is nil.
func (s *Session) panicked(name string, v any) {
	err := &PanicError{Value: v, Stack: debug.Stack()}
	s.srv.shard(s).panics.Add(1)
	s.srv.o.Logger.Error("session: handler panicked", "handler", name, "session", s.id, "remote", s.RemoteAddr().String(),
		"panic", fmt.Sprint(v), "stack", string(err.Stack))
	if f := s.srv.observer.Panicked; f != nil {
		f(s, err)
	}
	s.fail(ByPanic, err)
}

// roots are the functions at whose call a goroutine becomes one of a session.
var roots = [...]string{
	"(*Session).run", "(*Session).notify", "(*Session).turnAway", "(*Session).execute", "(*driver).run",
	"(*packetReader).run", "(*packetPeer).away",
}

// inHandler reports whether the calling goroutine is one of a session.
func inHandler() bool { return stack.Within("github.com/sluice-push/sluice/session", roots[:]) }
