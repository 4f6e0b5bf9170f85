package session

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-push/sluice/workerpool"
)

// Turns that an executor takes. Whoever has found out that a session wants one, its loop or its goroutine, notes what is to be done in
// the session's errand and hires the executor; until that has ended the session is not read. An executor without room is asked again
// when it has ended another errand of this server, and by the watch, as it may have others to serve: the sessions wait in
// line, and their peers feel it.
//
//	noted (owed) ──► in line ──► submitted ──► begun: execute
//	      └────────────┴─────────────┴── the session is over: whoever finds out takes the errand back
//
// So a session ends although its executor is stuck, or has dropped what it had accepted.

// Executor runs functions on goroutines of its own; those of package workerpool are Executors. See Options.Executor.
type Executor interface {
	// TrySubmit has task run on another goroutine, once, and does not wait. A [workerpool.ErrFull], as errors.Is tells, means that
	// there is no room for now. After any other error the session ends with it.
	TrySubmit(key uint64, task func()) error
}

// errand is the turn of a session that the executor is to take.
type errand struct {
	task func() // the session's execute, made once
	owed bool   // nobody has begun it; guarded by the session's mutex

	turn turn // for a session on a loop

	// For a session with a goroutine, which waits for it.
	part part
	n    int
	done chan bool // capacity 1: whether to go on reading
}

// turn is what is to be done in a turn on a loop.
type turn struct{ greet, open, read, tick bool }

// part is what the goroutine of a session lets an executor do.
type part uint8

const (
	partOpen  part = iota
	partFirst      // handle what came with the connection
	partRead       // handle n bytes that have arrived
	partTick
)

// hiring is the line of sessions whose errands the executor has no room for.
type hiring struct {
	mu   sync.Mutex
	line []*Session
}

// outsideLocked reports whether turns are the executor's. Those of a session whose messages are received wait for who receives, which
// is not work.
func (s *Session) outsideLocked() bool { return s.errand != nil && s.pull == nil }

// hire gives the errand of s, which is owed, to the executor, behind those that wait already.
func (srv *Server) hire(s *Session) {
	h := &srv.hiring
	h.mu.Lock()
	if len(h.line) > 0 {
		h.line = append(h.line, s)
		s = nil
	}
	h.mu.Unlock()
	if s != nil && !srv.submit(s) {
		h.mu.Lock()
		h.line = append(h.line, s)
		h.mu.Unlock()
	} else if s != nil {
		return
	}
	srv.watch.ensure()
}

// submit reports whether the executor had room, or never will have.
func (srv *Server) submit(s *Session) bool {
	err := srv.o.Executor.TrySubmit(s.id, s.errand.task)
	if errors.Is(err, workerpool.ErrFull) {
		return false
	}
	if err != nil {
		s.fail(ByError, fmt.Errorf("session: executor: %w", err))
	}
	return true
}

// hireWaiting gives the executor the errands that wait, as many as it has room for.
func (srv *Server) hireWaiting() {
	h := &srv.hiring
	for {
		h.mu.Lock()
		if len(h.line) == 0 {
			h.line = nil
			h.mu.Unlock()
			return
		}
		s := h.line[0]
		h.line[0] = nil
		h.line = h.line[1:]
		h.mu.Unlock()
		if !srv.submit(s) {
			h.mu.Lock()
			h.line = append([]*Session{s}, h.line...)
			h.mu.Unlock()
			return
		}
	}
}

// look is called by the watch. It reports whether a session waits.
func (h *hiring) look(srv *Server) bool {
	if !h.waiting() {
		return false
	}
	srv.hireWaiting()
	return true
}

func (h *hiring) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.line) > 0
}

// execute is the task of the executor.
func (s *Session) execute() {
	s.mu.Lock()
	if !s.errand.owed {
		s.mu.Unlock()
		return
	}
	s.errand.owed = false
	s.forgiveLocked() // it was not the peer who was silent
	s.mu.Unlock()
	defer s.srv.hireWaiting()
	s.c.execute()
}

// retractLocked takes an errand back that nobody has begun, and reports whether there was one.
func (s *Session) retractLocked() bool {
	if s.errand == nil || !s.errand.owed {
		return false
	}
	s.errand.owed = false
	return true
}

// delegate does a part of a session's turn, or has the executor do it and waits. It is called by the session's goroutine, and reports
// whether to go on reading.
func (s *Session) delegate(p part, n int) bool {
	s.mu.Lock()
	outside := s.outsideLocked()
	if outside && s.phase.Load() == phaseClosed {
		s.mu.Unlock()
		return false
	}
	if e := s.errand; outside {
		e.part, e.n, e.owed = p, n, true
	}
	s.mu.Unlock()
	if !outside {
		return s.do(p, n)
	}
	s.srv.hire(s)
	return <-s.errand.done
}

// do does a part of a session's turn.
func (s *Session) do(p part, n int) bool {
	switch p {
	case partOpen:
		return s.open()
	case partTick:
		s.tick()
		return s.phase.Load() != phaseClosed
	default:
		s.cork()
		goOn := s.receive(n)
		s.uncork(p == partRead)
		return goOn
	}
}
