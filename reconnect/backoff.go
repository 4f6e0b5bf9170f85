package reconnect

import "time"

// backoff says how long to wait at most before each attempt. It knows neither a clock nor chance.
type backoff struct {
	base, most time.Duration // 0 < base <= most
	bound      time.Duration // of the next wait; 0 is base
}

// next returns the bound of this wait, and doubles the one of the next as far as that goes.
func (b *backoff) next() time.Duration {
	bound := max(b.bound, b.base)
	if bound > b.most/2 {
		b.bound = b.most
	} else {
		b.bound = 2 * bound
	}
	return bound
}

// reset begins anew.
func (b *backoff) reset() { b.bound = 0 }
