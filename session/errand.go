package session

import (
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/internal/waitlist"
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
	// Guarded by the session's mutex.
	owed  bool  // nobody has begun it
	since int64 // when that was noted, or the clocks were last moved for it, by the server's clock

	place waitlist.Node[*Session] // in the line

	inside bool // owned by who has the turn: that is the executor

	turn turn // for a session on a loop

	// For a session with a goroutine, which waits for it.
	part part
	n    int
	done chan bool // capacity 1: whether to go on reading
}

// turn is what is to be done in a turn on a loop.
type turn struct {
	greet, open, read, tick bool
	rest                    bool // go on with what an executor has left: see leaves
}

// part is what the goroutine of a session lets an executor do.
type part uint8

const (
	partOpen  part = iota
	partFirst      // handle what came with the connection
	partRead       // handle n bytes that have arrived
	partTick
)

// outsideLocked reports whether turns are the executor's. Those of a session whose messages are received wait for who receives, which
// is not work.
func (s *Session) outsideLocked() bool { return s.errand != nil && s.pull == nil }

// hire gives the errand of s, which is owed, to the executor, behind those that wait already.
func (srv *Server) hire(s *Session) {
	if !srv.hiring.Waiting() && srv.submit(s) {
		return
	}
	srv.line(s, false)
	srv.watch.Ensure()
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

// hireWaiting gives the executor the errands that wait, in order, as many as it has room for.
func (srv *Server) hireWaiting() {
	for srv.ask(true) {
	}
}

// ask gives the executor the errand of the first in line, and reports whether it took it. If not, the session is the first again, or the
// last.
func (srv *Server) ask(first bool) bool {
	n := srv.hiring.Take()
	if n == nil {
		return false
	}
	taken := srv.submit(n.Value)
	if !taken {
		srv.line(n.Value, first)
	}
	srv.hiring.Answered()
	return taken
}

// lookMost is how many in line the watch asks for.
const lookMost = 64

// lookHiring is called by the watch. It reports whether a session waits. It asks for others than the first as well: an executor with a queue
// for each of its workers may have room for those. Unless there are many they keep their order.
func (srv *Server) lookHiring() bool {
	n := srv.hiring.Len()
	for range min(n, lookMost) {
		srv.ask(false)
	}
	return n > 0
}

// line puts s in line, at one of its ends, unless its errand was taken back meanwhile.
func (srv *Server) line(s *Session, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errand.owed {
		srv.hiring.Add(&s.errand.place, first)
	}
}

// execute is the task of the executor.
func (s *Session) execute() {
	s.mu.Lock()
	if !s.errand.owed {
		s.mu.Unlock()
		return
	}
	s.excuseLocked()
	s.errand.owed = false
	s.mu.Unlock()
	defer s.srv.hireWaiting()
	s.c.execute()
}

// owe notes that there is an errand. The session's mutex is held.
func (e *errand) owe(now int64) { e.owed, e.since = true, now }

// excuseLocked moves the clocks that count how long the peer is silent by as long as the errand, which is owed, has waited: that was not
// the peer's silence. What came before it was.
func (s *Session) excuseLocked() {
	e, now := s.errand, s.srv.clock()
	waited := now - e.since
	e.since = now
	if s.phase.Load() != phaseOpen {
		return
	}
	s.lastRead.Store(min(now, s.lastRead.Load()+waited))
	if s.handshake && s.endBy > 0 {
		s.endBy += waited
	}
}

// retractLocked takes an errand back that nobody has begun, and reports whether there was one.
func (s *Session) retractLocked() bool {
	if s.errand == nil || !s.errand.owed {
		return false
	}
	s.errand.owed = false
	s.srv.hiring.Drop(&s.errand.place)
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
		e.part, e.n = p, n
		e.owe(s.srv.clock())
	}
	s.mu.Unlock()
	if !outside {
		return s.do(p, n)
	}
	s.srv.hire(s)
	goOn := <-s.errand.done
	switch {
	case !goOn || s.pull == nil:
		return goOn
	case p == partOpen:
		s.awaitFirst()
	}
	return s.do(partFirst, 0)
}

// leaves reports whether an executor has the turn of a session whose messages are received since a function of the handler, in this turn,
// said so. It does not wait for who receives, but leaves what has arrived to a goroutine of the engine.
func (s *Session) leaves() bool { return s.errand != nil && s.errand.inside && s.pull != nil }

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
		s.handledAll(p == partRead)
		return goOn
	}
}
