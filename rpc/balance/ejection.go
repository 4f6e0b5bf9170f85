package balance

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ejection is when servers get no calls for a while. For every field zero is the default and negative means that the rule is off.
type Ejection struct {
	// Failures is how many calls have to fail in a row; default 5.
	Failures int
	// Rate is the share of calls that have to fail, of at least MinCalls within ten seconds; default 0.5.
	Rate float64
	// MinCalls is how many calls are needed to speak of a share; default 20.
	MinCalls int
	// Time is for how long a server gets no calls the first time; default 5 s. The second time it is twice as long, and so on up to twenty times.
	// A server that has had no failure for twice its last time begins anew.
	Time time.Duration
}

// rateWindow is the time in which the share of calls that fail is counted.
const rateWindow = 10 * time.Second

// maxEjections is how many times the first time an ejection may last.
const maxEjections = 20

func (e *Ejection) withDefaults() (out Ejection) {
	if e != nil {
		out = *e
	}
	if out.Failures == 0 {
		out.Failures = 5
	}
	if out.Rate == 0 {
		out.Rate = 0.5
	}
	if out.MinCalls <= 0 {
		out.MinCalls = 20
	}
	if out.Time <= 0 {
		out.Time = 5 * time.Second
	}
	return out
}

// Result is how a call has ended, as far as the server is concerned.
type Result uint8

// The results. Calls that the caller has given up before the server could have answered, and errors that the method returns on purpose, are OK or
// Ignored: they say nothing against the server.
const (
	OK      Result = iota + 1 // the server has answered
	Failed                    // it was not reached, did not answer in time, or said that it cannot
	Ignored                   // nothing is known
)

// state is what is known of a server.
type state struct {
	pending atomic.Int64
	flags   atomic.Uint32 // ejected and probed, read without mu

	mu            sync.Mutex // guards what follows
	inRow         int        // calls that have failed in a row
	since         time.Time  // begin of the window
	calls, failed int        // in the window
	ejections     int        // in a row
	until         time.Time  // when an ejected server is probed
	good          time.Time  // when it was last taken back
	probe         uint64     // the number of the last probe
}

const (
	ejected uint32 = 1 << iota
	probed
)

// isGood reports whether a server is not ejected.
func (s *state) isGood() bool { return s.flags.Load() == 0 }

// admits reports whether a server may get a call now. If it is ejected and its time is over, that call is its probe, and has a number. If lenient, it
// may get a call in any case.
func (s *state) admits(now time.Time, lenient bool) (ok bool, probe uint64) {
	if s.isGood() {
		return true, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch flags := s.flags.Load(); {
	case flags == 0:
		return true, 0
	case flags&probed != 0 || now.Before(s.until):
		return lenient, 0
	}
	s.flags.Store(ejected | probed)
	s.probe++
	return true, s.probe
}

// Done says how a call has ended. It is called once for each Pick.
func (c Choice) Done(now time.Time, r Result) {
	t, s := c.Target, c.state
	s.pending.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	decides := c.probe != 0 && c.probe == s.probe && s.flags.Load() == ejected|probed // it was not taken back since
	if r == Ignored {
		if decides {
			s.flags.Store(ejected) // another call does
		}
		return
	}
	if now.Sub(s.since) >= rateWindow {
		s.since, s.calls, s.failed = now, 0, 0
	}
	s.calls++
	if r == OK {
		s.inRow = 0
		if !s.isGood() { // also one that was sent before, or because there was no other
			s.flags.Store(0)
			s.good, s.calls, s.failed = now, 0, 0
		}
		return
	}
	s.inRow++
	s.failed++
	e := &t.b.ejection
	switch {
	case !s.isGood():
		if decides {
			t.ejectLocked(now, true)
		}
	case e.Failures > 0 && s.inRow >= e.Failures, e.Rate > 0 && s.calls >= e.MinCalls && float64(s.failed) > e.Rate*float64(s.calls):
		if t.b.mayEject() {
			t.ejectLocked(now, false)
		}
	}
}

// ejectLocked ejects a server, perhaps again. Its mu is held.
func (t *Target) ejectLocked(now time.Time, again bool) {
	s, first := t.state, t.b.ejection.Time
	if s.ejections > 0 && !again && now.Sub(s.good) > 2*time.Duration(s.ejections)*first {
		s.ejections = 0
	}
	s.ejections = min(s.ejections+1, maxEjections)
	s.until = now.Add(time.Duration(s.ejections) * first)
	s.inRow, s.calls, s.failed = 0, 0, 0
	s.flags.Store(ejected)
}

// mayEject reports whether another server may be ejected: at most half of them. Two that are ejected at the same instant may be one too many.
func (b *Balancer) mayEject() bool {
	all := b.current.Load().all.targets
	out := 0
	for _, t := range all {
		if !t.state.isGood() {
			out++
		}
	}
	return 2*(out+1) <= len(all)
}

// Ejected reports whether a server gets no calls now, but for a probe.
func (t *Target) Ejected() bool { return !t.state.isGood() }
