package network

import (
	"math/rand/v2"
	"time"
)

// fate decides the random events of a connection and their times. It has no clock: now is an argument, and does not go back. The events do not
// depend on the traffic.
type fate struct {
	stalls Stalls
	dice   *rand.Rand

	from, to time.Duration // the present or next stall; never if there is none
	reset    time.Duration // when the connection is reset, or never
	halfOpen time.Duration // when it becomes half open, or never
}

// The kinds of random values of a connection. Each has its own source, so that none depends on how often another was used.
const (
	ofFate = iota
	ofUp
	ofDown
	ofChoice
	sources
)

// source returns the source of one kind of random values of a connection.
func source(seed, id uint64, what uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, id*sources+what)) //nolint:gosec // not a secret
}

// isChosen reports whether a connection belongs to a share of all. A connection in a share is in every larger share.
func isChosen(seed, id uint64, share float64) bool {
	return source(seed, id, ofChoice).Float64() < share
}

// newFate draws the events of a connection from now on.
func newFate(c *Conditions, id uint64, now time.Duration) fate {
	f := fate{stalls: c.Stalls, dice: source(c.Seed, id, ofFate), from: never, to: never, reset: never, halfOpen: never}
	if c.Reset > 0 {
		f.reset = now + f.chance(c.Reset)
	}
	if c.HalfOpen > 0 {
		f.halfOpen = now + f.chance(c.HalfOpen)
	}
	if c.Stalls != (Stalls{}) {
		f.draw(now)
	}
	return f
}

// chance returns a random time that is distributed exponentially.
func (f *fate) chance(mean time.Duration) time.Duration {
	return time.Duration(f.dice.ExpFloat64() * float64(mean))
}

// draw draws the first stall that begins after now.
func (f *fate) draw(now time.Duration) {
	s := &f.stalls
	f.from = now + f.chance(s.Every)
	f.to = f.from + s.Least + time.Duration(f.dice.Int64N(int64(s.Most-s.Least)+1))
}

// stalled reports whether the connection stalls at now, and when that changes.
func (f *fate) stalled(now time.Duration) (is bool, next time.Duration) {
	for f.to <= now {
		f.draw(f.to)
	}
	if now < f.from {
		return false, f.from
	}
	return true, f.to
}
