package reconnect

import "time"

// backoff computes the longest wait before each attempt. It uses neither a clock nor random numbers.
type backoff struct {
	base, most time.Duration // 0 < base <= most
	bound      time.Duration // the longest next wait; 0 means base
}

// next returns the bound of this wait, and doubles the bound of the next one, up to most.
func (b *backoff) next() time.Duration {
	bound := max(b.bound, b.base)
	if bound > b.most/2 {
		b.bound = b.most
	} else {
		b.bound = 2 * bound
	}
	return bound
}

// reset makes the next bound base again.
func (b *backoff) reset() { b.bound = 0 }
