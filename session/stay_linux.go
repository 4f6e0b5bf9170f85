package session

import (
	"runtime"
	"time"

	"github.com/sluice-push/sluice/internal/lookout"
)

// A session whose turn was given to a goroutine, because its own handlers block or those of several others, stays there: it waits for its peer in
// the runtime's poller, through a Lookout, and takes turn after turn. So nobody has to find out that a handler sleeps before others are served.
//
//	turnAway ──► turn ──► judge ──► stay: wait ──► turn ──► judge ──► wait ... ──► comeBack
//
// To the loop that is one long turn of somebody else's (away). It still sees to the clocks and to what waits for room, and recalls the session when
// it is over or a tick is due. By itself that comes back when handlers are quick again, or its peer is silent.

const (
	stayFor   = time.Second // at least, and at most twice as long, since the peer has said something
	stayShare = 4           // sessions stay where more than one in so many of the descriptors that the process may have is left for others,
	stayUntil = 8           // until a new session says that no more than one in so many is
)

// staysLocked reports whether s, whose turn is away, is to go on there. The loop ends sessions, gives ticks, and hears reports of what was sent
// without copying. When turns come is not the peer's to say where there is an executor, or somebody receives.
func (s *Session) staysLocked(now int64) bool {
	st := &s.seat
	ls := &s.srv.loops
	return (st.pace.Slow() || ls.slow.Slow(now)) && s.phase.Load() != phaseClosed && !st.deaf && !st.owed && !st.zero &&
		s.pull == nil && s.errand == nil && !s.paused && s.unwritten.Load() == 0 && ls.fewUntil.Load() <= now
}

// stay gives s, which is away, turns until it is to come back.
func (s *Session) stay() {
	out, err := lookout.New(int(s.fd), stayShare)
	if err != nil { // mostly for want of a descriptor; it is served from the loop as well
		return
	}
	s.mu.Lock()
	s.seat.out = out
	s.mu.Unlock()
	defer func() { // also when a handler ends the goroutine
		s.mu.Lock()
		s.seat.out = nil
		s.mu.Unlock()
		out.Close()
	}()
	spoke := false // since staysOn
	ready := func(uintptr) (back bool) {
		for n := 1; ; n++ {
			began := s.srv.clock()
			s.seat.dry = false
			s.takeAway(turn{read: true})
			if s.seat.dry {
				return false
			}
			spoke = true
			s.srv.shard(s).moved.Add(1)
			if !s.judge(began) {
				return true
			}
			if n%yieldAfter == 0 {
				runtime.Gosched()
			}
		}
	}
	for s.staysOn(out) {
		spoke = false
		if over, _ := out.Wait(ready); !over || !spoke { // an error is for the loop to see: reports of what was sent
			return
		}
	}
}

// staysOn reports whether s waits once more, and sets for how long. Recall is called under the mutex too, so it is not undone here.
func (s *Session) staysOn(out *lookout.Lookout) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staysLocked(s.srv.clock()) && out.For(stayFor) == nil
}

// takeAway is a turn that is not the driver's.
func (s *Session) takeAway(t turn) {
	s.cork()
	s.take(t)
	s.rest()
	s.handledAll(false)
}

// judge looks how long a turn that was away has taken, and reports whether the session stays.
func (s *Session) judge(began int64) (stays bool) {
	now, slow := s.srv.clock(), &s.srv.loops.slow
	s.mu.Lock()
	counts := s.seat.pace.Judge(slow, s.pull != nil || s.seat.free, began, now)
	s.seat.free = false
	stays = s.staysLocked(now)
	s.mu.Unlock()
	if counts {
		slow.TookOver(now, s.srv.Stats().Moved)
	}
	return stays
}
