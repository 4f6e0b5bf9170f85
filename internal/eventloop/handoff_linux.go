package eventloop

import "time"

const (
	// StallTick is how often CheckStall should be called.
	StallTick = time.Millisecond
	// computeFor is how long a Dispatch may compute. One that sleeps loses the loop sooner.
	computeFor = 10 * time.Millisecond
)

// CheckStall hands the loop off if the member that is being dispatched sleeps, or has computed for too long. It reports whether there was something
// to see. Calls must not overlap.
func (l *Loop[M]) CheckStall() (seen bool) {
	t, now := l.thread.Load(), l.cfg.Clock()
	seq := t.seq.Load()
	stalled := l.stall.Observe(seq, now)
	if seq%2 == 0 || stalled == 0 {
		return l.watchdog.Clear()
	}
	r, computes := t.current.Load(), stalled >= computeFor
	if r == nil || seq&handedOff != 0 || !computes && !t.os.IsAsleep() {
		return true
	}
	m := r.timer.Value
	if !m.TryLock() {
		return true
	}
	done := l.handOff(m, t, seq)
	m.Unlock()
	if done {
		if !computes {
			l.offload.Blocked(now)
		}
		m.HandedOff()
	}
	return true
}

// Fired reports whether the watchdog has found a stall since CheckStall was called.
func (l *Loop[M]) Fired() bool { return l.watchdog.Fired() }

// handOff gives the loop to another thread while t is in Dispatch of m, if seq is still its sequence number. It reports whether it has. The lock of m
// is held.
func (l *Loop[M]) handOff(m M, t *Thread[M], seq uint64) bool {
	r := m.Registration()
	if seq&handedOff != 0 || r.Offloaded || !t.seq.CompareAndSwap(seq, seq|handedOff) {
		return false
	}
	r.Offloaded, r.OnLoop = true, false
	l.mu.Lock()
	l.lost[r] = t
	l.mu.Unlock()
	r.Offload.Offload(l.cfg.Clock())
	l.blocked.Add(1)
	m.UpdateInterest()
	l.successor(t)
	return true
}

// Release is called before m waits for its peer. It hands the loop off if the goroutine of m runs it, and reports whether it has. A goroutine
// that has lost the loop, now or before, does not keep its operating system thread while it waits. The lock of m is held.
func (l *Loop[M]) Release(m M) (handedOff bool) {
	r := m.Registration()
	if r.OnLoop {
		t := l.thread.Load()
		seq := t.seq.Load()
		if seq%2 == 0 || t.current.Load() != r {
			return false
		}
		handedOff = l.handOff(m, t, seq)
	}
	l.mu.Lock()
	t := l.lost[r]
	l.mu.Unlock()
	if t != nil {
		t.os.UnlockSelf()
	}
	return handedOff
}
