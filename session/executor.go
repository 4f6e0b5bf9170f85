package session

import (
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/workerpool"
)

// Work that an executor does. When a session has work, its loop or its goroutine describes it in the session's task and submits the task to the
// executor. Until the task has run, the session is not read. If the executor has no room, the session waits in the server's task queue, and its
// peer is slowed down. Queued tasks are submitted after another task of this server has run. The watchdog submits them too, because the executor
// may have other users.
//
//	pending ──► in the queue ──► submitted ──► run: execute
//	   └────────────┴─────────────┴── the session ends: the task is cancelled
//
// Because tasks can be cancelled, a session ends although its executor is stuck, or has dropped a task that it had accepted.

// Executor runs functions on goroutines of its own: see Options.Executor. The pools of package workerpool are Executors.
type Executor interface {
	// TrySubmit runs task once on another goroutine, and does not wait for it. If the error is a [workerpool.ErrFull], as errors.Is tells, there
	// is no room for now. After any other error the session ends with that error.
	TrySubmit(key uint64, task func()) error
}

// executorTask is the work of a session that the executor is to do.
type executorTask struct {
	run func() // the session's execute, made once
	// Guarded by the session's mutex.
	pending bool  // the work has not begun
	since   int64 // server's clock when the task became pending, or when the timeouts were last credited for it

	place waitNode[*Session] // in the server's task queue

	running bool // owned by the dispatching goroutine, which is the executor's

	work work // for a session on a loop

	// Of a session with a goroutine, which waits for done.
	part part
	n    int
	done chan bool // capacity 1: reports whether to go on reading
}

// part is a part of a dispatch that the goroutine of a session may leave to an executor.
type part uint8

const (
	partOpen  part = iota
	partFirst      // handle bytes that came with the connection
	partRead       // handle n bytes that have arrived
	partTick
)

// usesExecutorLocked reports whether the executor does the session's work. If messages are received, it does not: waiting for the receiver would
// hold up a worker.
func (s *Session) usesExecutorLocked() bool { return s.task != nil && s.pull == nil }

// submit submits the pending task of s, after the tasks in the queue.
func (srv *Server) submit(s *Session) {
	if !srv.tasks.Waiting() && srv.trySubmit(s) {
		return
	}
	srv.enqueue(s, false)
	srv.watchdog.Start()
}

// trySubmit submits the task of s. It returns false if the executor has no room for now. After any other error it ends the session.
func (srv *Server) trySubmit(s *Session) bool {
	err := srv.o.Executor.TrySubmit(s.id, s.task.run)
	if errors.Is(err, workerpool.ErrFull) {
		return false
	}
	if err != nil {
		s.fail(ByError, fmt.Errorf("session: executor: %w", err))
	}
	return true
}

// submitQueued submits queued tasks in order, until the executor has no room.
func (srv *Server) submitQueued() {
	for srv.submitNext(true) {
	}
}

// submitNext submits the first task of the queue, and reports whether the executor took it. Otherwise the task goes back to
// the front of the queue if first is set, or else to the back.
func (srv *Server) submitNext(first bool) bool {
	n := srv.tasks.Pop()
	if n == nil {
		return false
	}
	taken := srv.trySubmit(n.Value)
	if !taken {
		srv.enqueue(n.Value, first)
	}
	srv.tasks.Done()
	return taken
}

// maxTicked is how many queued tasks the watchdog submits in one tick at most.
const maxTicked = 64

// tickTasks is called by the watchdog. It reports whether the queue was not empty. It submits others than the first task too: an executor with a
// queue for each of its workers may have room for those. If at most maxTicked tasks wait, they keep their order.
func (srv *Server) tickTasks() bool {
	n := srv.tasks.Len()
	for range min(n, maxTicked) {
		srv.submitNext(false)
	}
	return n > 0
}

// enqueue puts the task of s into the queue, at its front or its back. If the task was cancelled meanwhile, enqueue does nothing.
func (srv *Server) enqueue(s *Session, first bool) {
	s.out.Lock()
	defer s.out.Unlock()
	if s.task.pending {
		srv.tasks.Add(&s.task.place, first)
	}
}

// execute runs the task, on a goroutine of the executor.
func (s *Session) execute() {
	s.out.Lock()
	if !s.task.pending {
		s.out.Unlock()
		return
	}
	s.creditClocksLocked()
	s.task.pending = false
	s.out.Unlock()
	defer s.srv.submitQueued()
	s.c.execute()
}

// begin makes the task pending. The lock is held.
func (t *executorTask) begin(now int64) { t.pending, t.since = true, now }

// creditClocksLocked moves the timeouts for a silent peer by the time that the pending task has waited: the session did not read meanwhile.
func (s *Session) creditClocksLocked() {
	t, now := s.task, s.srv.clock()
	waited := now - t.since
	t.since = now
	if s.phase.Load() != phaseOpen {
		return
	}
	s.lastRead.Store(min(now, s.lastRead.Load()+waited))
	if s.firstWait && s.endBy > 0 {
		s.endBy += waited
	}
}

// cancelTaskLocked cancels the task if it is pending, and reports whether it was.
func (s *Session) cancelTaskLocked() bool {
	if s.task == nil || !s.task.pending {
		return false
	}
	s.task.pending = false
	s.srv.tasks.Remove(&s.task.place)
	return true
}

// runPart does a part of a dispatch, or submits it to the executor and waits until it is done. The session's goroutine calls it. It reports
// whether to go on reading.
func (s *Session) runPart(p part, n int) bool {
	s.out.Lock()
	onExecutor := s.usesExecutorLocked()
	if onExecutor && s.phase.Load() == phaseClosed {
		s.out.Unlock()
		return false
	}
	if t := s.task; onExecutor {
		t.part, t.n = p, n
		t.begin(s.srv.clock())
	}
	s.out.Unlock()
	if !onExecutor {
		return s.doPart(p, n)
	}
	s.srv.submit(s)
	goOn := <-s.task.done
	switch {
	case !goOn || s.pull == nil:
		return goOn
	case p == partOpen:
		s.awaitFirst()
	}
	return s.doPart(partFirst, 0)
}

// leavesExecutor reports whether the executor has to leave the rest of this dispatch to a goroutine of the engine. It has to if a handler has
// changed to Pull in this dispatch, because the executor must not wait for a receiver.
func (s *Session) leavesExecutor() bool { return s.task != nil && s.task.running && s.pull != nil }

// doPart does a part of a dispatch of a session that has a goroutine.
func (s *Session) doPart(p part, n int) bool {
	switch p {
	case partOpen:
		return s.open()
	case partTick:
		s.tick()
		return s.phase.Load() != phaseClosed
	default:
		s.cork()
		goOn := s.receive(n)
		socket := int32(noSocket)
		if p == partRead {
			socket = s.gor.Socket()
		}
		s.handledAll(socket)
		return goOn
	}
}
