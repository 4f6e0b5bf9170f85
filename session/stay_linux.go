package session

import (
	"runtime"
	"time"

	"github.com/sluice-push/sluice/internal/lookout"
)

// A session whose handlers block, and every other one where many do, stays on the goroutine that has its turn: it waits for its peer in the
// runtime's poller, and reads when something has come. So nobody has to find out that a handler sleeps before another session is served. To the
// loop it is away meanwhile, in one long turn, and the loop sees to its clocks and to what waits for room. It comes back when handlers are quick
// again, when its peer has been silent for a while, or when the loop recalls it: it is over, or there is a tick for it.

const (
	stayFor   = time.Second // since the peer has said something
	stayShare = 4           // of the descriptors that the process may have one in so many is left for others
)

// staysLocked reports whether s, whose turn is away, is to go on there.
func (s *Session) staysLocked(now int64) bool {
	st := &s.seat
	return (st.pace.Slow() || s.srv.loops.slow.Slow(now)) && s.phase.Load() != phaseClosed && !st.deaf && !st.owed && !st.zero &&
		s.pull == nil && s.errand == nil
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
	spoke := true // since the last look at the time
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
	for over := true; over && spoke && s.staysOn(out); {
		spoke = false
		over, _ = out.Wait(ready) // an error is for the loop to see: reports of what was sent
	}
}

// staysOn reports whether s waits once more.
func (s *Session) staysOn(out *lookout.Lookout) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staysLocked(s.srv.clock()) && out.For(stayFor) == nil
}

// takeAway is a turn that is not the driver's.
func (s *Session) takeAway(t turn) {
	s.cork()
	s.take(t)
	s.in.Rest()
	s.uncork(false)
}

// judge looks how long a turn that was away has taken, and reports whether the session stays.
func (s *Session) judge(began int64) (stays bool) {
	now := s.srv.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seat.pace.Judge(&s.srv.loops.slow, s.pull != nil, began, now)
	return s.staysLocked(now)
}
