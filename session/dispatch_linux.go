package session

import (
	"io"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
)

// One dispatch of a session on an event loop, from top to bottom: what the events mean, where the work is done, the work, and its end.
//
//	Dispatch ──► workFor ──► on the loop: runOnLoop ──► do ──► readOnce ──► handler ──► finishAndUnlock
//	                └──────► on a goroutine: runOffLoop (offloaded_linux.go), or by the executor (executor.go)
//
// Exactly one goroutine at a time dispatches a session: the loop's thread, or the goroutine that the session was offloaded to. The session's
// mutex guards the hand-off (Registration.Offloaded).

// work is what a dispatch has to do.
type work struct {
	handshake, open, read, tick bool
	resume                      bool // go on with input that was left: see leavesExecutor, and writer.Writer.Overloaded
}

// Dispatch handles the events that the loop has found for a session.
func (c *loopConn) Dispatch(t *loopThread, events eventloop.Events) {
	s := c.session()
	s.out.Lock()
	if s.fd < 0 {
		s.out.Unlock()
		return
	}
	events = s.handleEventsLocked(events)
	if s.loop.reg.Offloaded {
		s.interruptLocked()
		s.updateInterestLocked()
		s.out.Unlock()
		return
	}
	w := s.workFor(events)
	switch {
	case w == (work{}) || s.phase.Load() == phaseClosed:
	case s.runsOffLoopLocked():
		s.loop.reg.Offloaded = true
		s.updateInterestLocked()
		s.offloadAndUnlock(w)
		return
	default:
		s.runOnLoop(t, w)
	}
	s.finishAndUnlock()
}

// handleEventsLocked does the work that needs no handler: it writes the queue, and checks the timeouts. It returns the events that are left.
func (s *Session) handleEventsLocked(events eventloop.Events) eventloop.Events {
	if events&(eventloop.Posted|eventloop.TimerFired) == 0 {
		s.loop.reg.Reported()
	}
	if s.loop.zeroCopied && events&eventloop.Err != 0 {
		events = s.reportsLocked(events)
	}
	if events&eventloop.TimerFired != 0 && s.timerFiredLocked() {
		s.loop.tickDue = true
	}
	if s.waitsWritableLocked() && (events&(eventloop.Out|eventloop.Err|eventloop.Hup) != 0 || s.phase.Load() == phaseClosed) {
		progress, stuck := s.out.WriteQueue()
		if progress {
			s.loop.stalledSince = s.loop.on.Now()
		}
		if stuck && events&eventloop.Out != 0 {
			s.pauseWritesLocked()
		}
	}
	if s.loop.reg.Offloaded && s.phase.Load() == phaseClosed && s.cancelTaskLocked() {
		s.loop.reg.Offloaded = false
	}
	return events
}

// workFor derives the work of a dispatch from its events.
func (s *Session) workFor(events eventloop.Events) work {
	if events&(eventloop.PeerEnd|eventloop.Err|eventloop.Hup) != 0 {
		s.loop.reg.Rearm = true
	}
	w := work{
		tick: s.loop.tickDue, open: !s.opened,
		read: events&(eventloop.In|eventloop.Err|eventloop.Hup) != 0 && !s.loop.readClosed,
	}
	s.loop.tickDue = false
	if s.out.Overloaded() {
		w.read = false
	} else {
		w.resume, s.paused = s.paused, false
	}
	return w
}

// runsOffLoopLocked reports whether goroutines or an executor do the session's work.
func (s *Session) runsOffLoopLocked() bool {
	l := s.loop.on
	return s.pull != nil || s.task != nil || s.loop.reg.Offload.Offloaded(l.Offload(), l.Now())
}

// runOnLoop does work on the loop's thread, with the thread's buffers. The lock is held, and released meanwhile.
func (s *Session) runOnLoop(t *loopThread, w work) {
	t.Buffers()
	s.loop.reg.OnLoop = true
	lent := s.out.Cork(t.Out)
	s.out.Unlock()
	s.in.Borrow(t.In)
	// After a system call the processor may mispredict each return, so readOnce is usually called without do: see internal/writer/single_linux.go.
	if w != (work{read: true}) || s.loop.tls != nil {
		s.do(w)
	} else if !s.readOnce() {
		s.stopReading()
	}
	s.releaseInput()
	if !t.In.Free { // the buffer holds a part of a large message, which the session keeps
		t.In.Disown()
		t.In = nil
	}
	s.out.Lock()
	s.handledLocked()
	s.loop.reg.OnLoop = false
	b := s.out.Uncork(s.out.Socket())
	if lent && b != t.Out {
		t.Out = nil
	}
	if b != nil && b != t.Out {
		s.srv.pools.PutBatch(b)
	}
}

// do does work, on the loop's thread or elsewhere.
func (s *Session) do(w work) {
	goOn := true
	switch {
	case w.resume:
		if w.open {
			s.awaitFirst()
		}
		goOn = s.receive(0)
		if goOn && s.loop.tls != nil {
			goOn = s.loop.tls.handle(s.loop.tls.left)
		}
	case w.open:
		goOn = s.open() && (len(s.in.Unread()) == 0 || s.receive(0))
		w.read = (w.read || s.loop.tls != nil) && !s.leavesExecutor() // TLS may have read more than the handshake
	}
	if goOn && w.tick {
		s.tick()
	}
	switch {
	case !goOn || !w.read || s.paused:
	case s.loop.tls != nil:
		goOn = s.loop.tls.readOnce()
	default:
		goOn = s.readOnce()
	}
	if !goOn {
		s.stopReading()
	}
}

// readOnce reads what has arrived, up to a buffer full, and handles it. It reports whether to go on reading.
func (s *Session) readOnce() (goOn bool) {
	space := s.in.Space()
	n, errno := buffer.Receive(uintptr(s.fd), space)
	switch {
	case errno == syscall.EAGAIN:
		s.loop.drained, goOn = true, true
	case errno != 0:
		s.readEnded(os.NewSyscallError("read", errno))
	case n == 0:
		s.readEnded(io.EOF)
	default:
		if n == len(space) {
			s.loop.reg.Rearm = true
		}
		s.in.Arrived(n)
		if s.o.IdleTimeout > 0 {
			s.lastRead.Store(s.srv.clock()) // the loop's time may stand still while the session is offloaded
		}
		goOn = s.receive(n)
	}
	return goOn
}

// stopReading ends reading: the peer has ended, or the stream cannot be decoded.
func (s *Session) stopReading() {
	s.out.Lock()
	defer s.out.Unlock()
	s.loop.readClosed = true
	if s.inputEndedLocked() {
		s.failLocked(ByLocal, ErrClosed)
	}
}

// finishAndUnlock is the end of a dispatch: the session is watched again, or it is over. It releases the lock.
func (s *Session) finishAndUnlock() {
	if s.phase.Load() != phaseClosed {
		if s.loop.reg.Rearm {
			s.loop.reg.Rearm = false
			s.loop.reg.ForgetInterest()
		}
		s.updateInterestLocked()
		if s.paused && !s.out.Overloaded() {
			s.loop.on.Post(&s.loop.reg)
		}
		s.out.Unlock()
		return
	}
	if s.waitsWritableLocked() {
		s.out.Quit()
	}
	if s.fd < 0 || !s.quietLocked() { // the goroutine that is still at work posts the session again
		s.out.Unlock()
		return
	}
	s.closeSocketLocked()
	s.concludeAndUnlock()
}

// closeSocketLocked closes the descriptor, after the last write has returned. If it closed earlier, the kernel could give the number to a new
// connection while a write is still using it.
func (s *Session) closeSocketLocked() {
	fd := s.fd
	s.fd = -1
	s.out.SetSocket(noSocket)
	s.loop.on.Remove(&s.loop.reg, fd)
	_ = syscall.Close(int(fd))
	if s.loop.dup != nil {
		_ = (*s.loop.dup).Close()
	}
	if s.loop.tls != nil {
		s.info.Undelivered += s.loop.tls.undelivered()
	}
	s.forgetZeroCopy()
	s.loop.on.Unregister(&s.loop.reg)
}

// timerFiredLocked is called when the session's timer has fired. It reports whether Tick is to be called.
func (s *Session) timerFiredLocked() (tick bool) {
	s.loop.stuck = false
	limit := int64(s.o.WriteTimeout)
	if s.waitsWritableLocked() && limit > 0 && s.srv.clock()-s.loop.stalledSince >= limit || s.reportsLateLocked() {
		s.failLocked(ByTimeout, s.stallError())
		return false
	}
	tick = s.checkClocksLocked()
	s.armLocked()
	return tick
}
