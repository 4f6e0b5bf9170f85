package session

import (
	"runtime"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
)

// Work of sessions on event loops that the loop's thread does not do: because handlers have blocked, because messages are received, because of
// TLS handshakes, or because there is an executor.
//
//	Dispatch ──► offloadAndUnlock ──► runOffLoop ──► readOffLoop: wait ──► work ──► wait ... ──► returnToLoop
//
// An offloaded session waits for its peer in the Go runtime's poller, through an eventloop.Waiter, and does its work there. To the loop that is
// one long dispatch by another goroutine (Registration.Offloaded). The loop still checks the session's timeouts and writes its queue when there
// is room. If the session has ended or a tick is due, the loop interrupts the wait. The session returns to the loop when it is no longer
// offloaded, or its peer is silent.

const (
	offLoopWait = time.Second // after the peer has sent bytes, the goroutine waits for at least so long, and at most twice as long
	yieldAfter  = 16          // reads in a row that found bytes, after which the goroutine yields
	waiterShare = 4           // a Waiter needs a descriptor: none is taken if at most one in so many of the process's descriptors is left
)

// offloaded is work that a goroutine does for a session.
type offloaded struct {
	s *Session
	w work
}

// offloadAndUnlock has the executor, or else a spare goroutine, do work for a session that is Offloaded. It releases the lock.
func (s *Session) offloadAndUnlock(w work) {
	outside := s.usesExecutorLocked()
	if outside {
		s.task.work = w
		s.task.begin(s.srv.clock())
	}
	s.out.Unlock()
	s.srv.shard(s).moved.Add(1)
	if outside {
		s.srv.submit(s)
	} else {
		s.srv.loops.spare.Run(offloaded{s, w})
	}
}

// runOffLoop does work on a goroutine other than the loop's thread, and goes on while the session stays off the loop.
func (s *Session) runOffLoop(w work) {
	done := false
	defer func() {
		if !done { // a handler has ended the goroutine
			s.returnToLoop()
		}
	}()
	if w.handshake {
		w.handshake, w.open = false, s.loop.tls.handshake()
		s.out.Lock()
		if w.open && s.usesExecutorLocked() {
			if s.phase.Load() != phaseClosed {
				done = true
				s.offloadAndUnlock(w)
				return
			}
			w.open = false // the executor does it
		}
		s.out.Unlock()
	}
	s.doOffLoop(w)
	s.out.Lock()
	if s.leavesExecutor() && !s.loop.readClosed && s.phase.Load() != phaseClosed {
		s.task.running, done = false, true
		s.out.Unlock()
		s.srv.loops.spare.Run(offloaded{s, work{resume: true, open: w.open}})
		return
	}
	s.out.Unlock()
	if (w.open || w.read) && s.staysOffLoop() { // after a tick alone, a silent session returns to its loop
		s.readOffLoop()
	}
	done = true
	s.returnToLoop()
}

// doOffLoop does work with the session's own buffers.
func (s *Session) doOffLoop(w work) {
	s.cork()
	s.do(w)
	s.releaseInput()
	s.handledAll(noSocket)
}

// staysOffLoop reports whether the session goes on outside its loop.
func (s *Session) staysOffLoop() bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.staysOffLoopLocked()
}

// staysOffLoopLocked is staysOffLoop with the lock held. Some sessions need the loop: it ends sessions, gives ticks, and reads the kernel's
// reports of memory that was sent without copying. If messages are received, or there is an executor, not only the peer decides when there is
// work.
func (s *Session) staysOffLoopLocked() bool {
	l := &s.loop
	return l.reg.Offload.Offloaded(l.on.Offload(), s.srv.clock()) && s.phase.Load() != phaseClosed && !l.readClosed && !l.tickDue &&
		!l.zeroCopied && s.pull == nil && s.task == nil && !s.paused && !s.out.Overloaded()
}

// readOffLoop waits for the peer and does the work, until the session has to return to its loop.
func (s *Session) readOffLoop() {
	waiter, err := eventloop.NewWaiter(int(s.fd), waiterShare)
	if err != nil { // usually for lack of a descriptor; then the next work is a dispatch again
		return
	}
	s.setWaiter(waiter)
	defer func() { // deferred, because a handler may end the goroutine
		s.setWaiter(nil)
		waiter.Close()
	}()
	gotInput := false // the peer has sent bytes in this wait
	ready := func(uintptr) (back bool) {
		for n := 1; ; n++ {
			s.loop.drained = false
			s.doOffLoop(work{read: true})
			if s.loop.drained {
				return false
			}
			gotInput = true
			s.srv.shard(s).moved.Add(1)
			if !s.staysOffLoop() {
				return true
			}
			if n%yieldAfter == 0 {
				runtime.Gosched()
			}
		}
	}
	for s.waitsAgain(waiter) {
		gotInput = false
		if timedOut, _ := waiter.Wait(ready); !timedOut || !gotInput { // after an error the loop reads the kernel's reports
			return
		}
	}
}

func (s *Session) setWaiter(w *eventloop.Waiter) {
	s.out.Lock()
	defer s.out.Unlock()
	s.loop.reg.Waiter = w
}

// waitsAgain reports whether the session waits once more, and sets the timeout of the wait. The lock is held, as in interruptLocked, so an
// interrupt is not lost.
func (s *Session) waitsAgain(w *eventloop.Waiter) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.staysOffLoopLocked() && w.SetTimeout(offLoopWait) == nil
}

// interruptLocked ends the wait of an offloaded session if the loop has to end it or a tick is due.
func (s *Session) interruptLocked() {
	if w := s.loop.reg.Waiter; w != nil && (s.loop.tickDue || s.phase.Load() == phaseClosed) {
		w.Interrupt()
	}
}

// returnToLoop is the end of work outside the loop, or of a dispatch by a goroutine that has lost its loop.
func (s *Session) returnToLoop() {
	s.out.Lock()
	if s.task != nil {
		s.task.running = false
	}
	s.loop.reg.Offloaded, s.loop.reg.OnLoop = false, false
	if s.fd < 0 {
		s.out.Unlock()
		return
	}
	s.armLocked()
	if s.loop.tickDue {
		s.loop.on.Post(&s.loop.reg)
	}
	s.finishAndUnlock()
}
