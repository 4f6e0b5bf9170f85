package gateway

import "sync"

// rate is how many commands a second are carried out, on the average, and how many at once after a time of rest.
type rate struct{ perSecond, atOnce int }

// rateOf is the rate of an option, of which zero is the default and negative none: ten seconds' worth at once.
func rateOf(option, otherwise int) rate {
	switch {
	case option < 0:
		return rate{}
	case option == 0:
		option = otherwise
	}
	return rate{option, 10 * option}
}

// bucket says whether something that has a rate may happen: a token bucket, of which debt is what is missing. The zero bucket is full.
type bucket struct {
	debt float64
	at   int64 // when debt was true, in milliseconds
}

// take takes one token, if there is one. Time that runs backwards counts as none.
func (b *bucket) take(r rate, now int64) bool {
	if r.perSecond == 0 {
		return true
	}
	if now > b.at {
		b.debt = max(0, b.debt-float64(now-b.at)*float64(r.perSecond)/1000)
		b.at = now
	}
	if b.debt+1 > float64(r.atOnce) {
		return false
	}
	b.debt++
	return true
}

// caller is an address from which clients are connected.
type caller struct {
	sessions int // guarded by the gateway's mutex

	mu       sync.Mutex
	commands bucket // guarded by mu
}

func (c *caller) take(r rate, now int64) bool {
	if r.perSecond == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands.take(r, now)
}
