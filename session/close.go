package session

import (
	"fmt"
	"runtime/debug"

	"github.com/sluice-push/sluice/internal/callstack"
	"github.com/sluice-push/sluice/internal/writer"
)

// How a session ends. The first cause counts. It is stored in info, and later causes do not change it.
//
//	open ----> ending ----> closed        End, EndWait, the peer's end, an error of the codec, a refusal by Open
//	     \----------------> closed        Close, Abort, time-outs, panics, errors of the connection
//
// Ending: queued frames are still written. After the last one (allWrittenLocked), the connection is half-closed, and the peer has Linger to end
// its side. Input is decoded meanwhile, because it may be the end of a closing handshake, but it is not handled. After EndWait, the peer's end
// comes first (peerEndedLocked); then the connection is half-closed, and nothing more is decoded. Closed: the socket is shut down, which wakes
// all goroutines that wait for it.
//
// The dispatching goroutine concludes the session, after all helper goroutines (which drain the queue, call Writable, or abort) and all writes
// have ended. It calls Close of the handler, and removes the session from the server.

// failLocked closes the session at once. If it is ending or closed already, the first cause stays.
func (s *Session) failLocked(by By, err error) {
	if s.phase.Load() == phaseClosed {
		return
	}
	if s.info == nil {
		s.info = &CloseInfo{By: by, Err: err}
	}
	s.leaveOpenLocked()
	s.phase.Store(phaseClosed)
	s.out.Abort()
	s.c.abortLocked()
	s.out.AbortBig()
	s.c.changedLocked()
}

// fail is failLocked for a caller without the lock. Corked frames are written first, because they were sent before this call.
func (s *Session) fail(by By, err error) {
	s.out.Lock()
	s.out.Flush()
	s.failLocked(by, err)
	s.out.Unlock()
}

// endMode says what a gentle end does when everything is written. Without Options.Linger, and over datagrams, it is always closeNow.
type endMode uint8

const (
	closeNow  endMode = iota // close the connection
	linger                   // half-close it, and wait for the peer to end
	awaitPeer                // wait for the peer's closing message or end first, and then do as linger
)

// end begins to end a session, if it is open. The frame last is the last one to be written.
func (s *Session) end(info *CloseInfo, last []byte, m endMode) {
	s.out.Lock()
	s.endLocked(info, last, m)
	s.out.Unlock()
}

func (s *Session) endLocked(info *CloseInfo, last []byte, m endMode) {
	if s.phase.Load() != phaseOpen {
		return
	}
	if s.o.Linger == 0 || s.packet != nil {
		m = closeNow
	}
	s.info, s.endMode = info, m
	s.leaveOpenLocked()
	s.phase.Store(phaseEnding)
	s.endBy = s.srv.deadline(s.o.WriteTimeout + s.o.Linger)
	s.armLocked()
	s.out.Finish(last)
}

// allWrittenLocked goes on with an ending session after everything has been written.
func (s *Session) allWrittenLocked() {
	s.c.changedLocked()
	ok := s.endMode == awaitPeer
	if s.endMode == linger && !s.writeClosed {
		s.writeClosed = true
		ok = s.out.CloseWrite()
		s.c.changedLocked()
		if ok && s.phase.Load() == phaseEnding && s.c.HasPending() {
			s.writeClosed = false // the connection holds bytes that it could not send: CloseWrite is called again
			s.out.AwaitWritable()
			return
		}
	}
	if ok && s.phase.Load() == phaseEnding && s.endMode != closeNow {
		s.endBy = sooner(s.endBy, s.srv.clock()+int64(s.o.Linger))
		s.armLocked()
		return
	}
	s.failLocked(ByLocal, ErrClosed)
}

// peerEndedLocked is called when the peer of an ending session has ended its stream. It reports whether the session was waiting for that.
func (s *Session) peerEndedLocked() bool {
	awaited := s.endMode == awaitPeer
	if awaited {
		s.endMode = linger
	}
	if awaited && s.out.State() == writer.Idle && !s.unreportedLocked() && s.phase.Load() == phaseEnding {
		s.allWrittenLocked()
	}
	return awaited
}

// inputEndedLocked is called when nothing more will be read. The session ends as soon as everything is written; inputEndedLocked reports whether
// it is.
func (s *Session) inputEndedLocked() bool {
	s.endMode = closeNow
	return s.writeClosed || s.phase.Load() == phaseClosed || s.out.IsEmpty() && !s.unreportedLocked()
}

// quietLocked reports whether no write and no helper goroutine is in progress for a closed session.
func (s *Session) quietLocked() bool { return s.out.State() == writer.Idle && s.helpers == 0 }

// concludeAndUnlock is the last call for a session, by the dispatching goroutine. It calls Close of the handler. It releases the lock.
func (s *Session) concludeAndUnlock() {
	s.info.Undelivered += s.out.Release()
	info := *s.info
	s.out.Unlock()
	s.in.Release()
	defer s.done.Done() // deferred, because Close of the handler may end the goroutine
	defer s.srv.removeSession(s)
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

// panicked ends the session because the function called name panicked with v. If the function ended its goroutine, v is nil.
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

// roots are the functions in which a goroutine of a session begins, or in which an event loop enters one. The names are those of the runtime.
var (
	roots          = []string{"(*Session).notify", "(*Session).runOffLoop", "(*Session).execute", "(*loopConn).Dispatch"}
	goroutineRoots = []string{"(*Conn).Run"}
	datagramRoots  = []string{"(*reader).run", "(*Registration).runOffReader"}
)

// inHandler reports whether a goroutine is calling that a session waits for when it is closed: one in a handler, or in code of the user that
// the engine calls, such as the Read of a net.Conn.
func inHandler() bool {
	const module = "github.com/sluice-push/sluice/"
	return callstack.Within(module+"session", roots) || callstack.Within(module+"internal/goroutineconn", goroutineRoots) ||
		callstack.Within(module+"internal/datagram", datagramRoots)
}
