package session

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// How a session ends. The first cause counts: it is put into info, under mu, by whoever comes first, and everything later leaves
// it alone.
//
//	open ----> ending ----> closed        End, the peer's end, an error of the codec, a refusal by Open
//	     \----------------> closed        Close, Abort, time-outs, panics, errors of the connection
//
// Ending: what waits is still written, then (writtenOutLocked) the connection is half-closed and the peer has Linger to end its side;
// what it says meanwhile is decoded, because it may be the end of a closing handshake, but not handled. Closed: the socket is shut
// down, which wakes all who wait for it.
//
// The goroutine in run is always the one that finishes: it closes the socket, waits for the transient goroutines and for whoever is
// in the middle of a write, calls Close of the handler, and leaves the server.

// failLocked closes the session now.
func (s *Session) failLocked(by By, err error) {
	if s.phase.Load() == phaseClosed {
		return
	}
	if s.info == nil {
		s.info = &CloseInfo{By: by, Err: err}
	}
	s.phase.Store(phaseClosed)
	s.turnAwayLocked()
	s.wakeLocked()
	if rest := s.c.abort(); rest != nil {
		s.transient.Go(rest)
	}
}

// fail is failLocked for who does not hold mu.
func (s *Session) fail(by By, err error) {
	s.mu.Lock()
	s.failLocked(by, err)
	s.mu.Unlock()
}

// endLocked begins to end an open session: last is the last thing to be written.
func (s *Session) endLocked(info *CloseInfo, last []byte, linger bool) {
	if s.phase.Load() != phaseOpen {
		return
	}
	s.info, s.linger = info, linger
	s.phase.Store(phaseEnding)
	if limit := s.srv.o.WriteTimeout + s.srv.o.Linger; limit > 0 {
		s.endBy = time.Now().Add(limit)
	}
	s.armLocked()
	s.turnAwayLocked()
	if len(last) > 0 {
		s.queueLocked().add(frame{b: bytes.Clone(last), at: s.now(), kept: true})
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
	s.wakeLocked()
	if s.linger && !s.half {
		s.half = true
		s.pen = penDraining // nobody else may come here, or write, while mu is not held
		s.mu.Unlock()
		ok := s.c.closeWrite()
		s.mu.Lock()
		s.pen = penFree
		s.wakeLocked()
		if ok && s.phase.Load() == phaseEnding && s.linger {
			s.endBy = time.Now().Add(s.srv.o.Linger)
			s.armLocked()
			return
		}
	}
	s.failLocked(ByLocal, ErrClosed)
}

// waitWritten waits until nothing is left to write, or the session has ended, or its time is over.
func (s *Session) waitWritten() {
	s.mu.Lock()
	s.linger = false
	if s.half || s.phase.Load() == phaseClosed || s.pen == penFree && s.q == nil {
		s.mu.Unlock()
		return
	}
	written := s.wakeMeLocked()
	var over <-chan time.Time
	if !s.endBy.IsZero() {
		timer := time.NewTimer(time.Until(s.endBy))
		defer timer.Stop()
		over = timer.C
	}
	s.mu.Unlock()
	select {
	case <-written:
	case <-over:
	}
}

// wakeMeLocked returns a channel that wakeLocked closes.
func (s *Session) wakeMeLocked() <-chan struct{} {
	if s.drained == nil {
		s.drained = make(chan struct{})
	}
	return s.drained
}

func (s *Session) wakeLocked() {
	if s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// finish is the end of run.
func (s *Session) finish() {
	s.fail(ByLocal, ErrClosed)
	_ = s.conn.Close()
	s.transient.Wait()
	s.mu.Lock()
	for s.pen != penFree { // a caller of Send or TryWrite is about to notice
		idle := s.wakeMeLocked()
		s.mu.Unlock()
		<-idle
		s.mu.Lock()
	}
	if s.q != nil {
		s.info.Undelivered = s.srv.pools.putQueue(s.q)
		s.q = nil
	}
	if s.slot != 0 { // a handler ended its goroutine
		s.srv.watch.leave(int(s.slot) - 1)
		s.slot = 0
	}
	info := *s.info
	s.mu.Unlock()
	s.in.drop()
	if s.opened && s.h.Close != nil {
		s.guard("close", func() { s.h.Close(s, &info) })
	}
	s.srv.leave(s)
	s.done.Done()
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
	s.fail(ByPanic, err)
}

// inHandler reports whether the calling goroutine is one of a session. Goroutines have no identity in Go; what tells is the function
// at the root of their stack.
func inHandler() bool {
	const here = "github.com/sluice-push/sluice/session.(*Session)."
	var pcs [64]uintptr
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if name, ok := strings.CutPrefix(f.Function, here); ok && (name == "run" || name == "notify") {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
