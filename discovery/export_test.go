package discovery

import (
	"context"
	"time"
)

// TTLOf is ttlOf.
var TTLOf = ttlOf

// Flaps is the core of Steady, which is told the time.
type Flaps struct{ *flaps }

// NewFlaps makes a Flaps.
func NewFlaps(o *SteadyOptions) Flaps { return Flaps{newFlaps(&NewSteady(nil, o).options)} }

// Observe is observe.
func (f Flaps) Observe(now time.Time, set []Endpoint) { f.observe(now, set) }

// Set is set.
func (f Flaps) Set(now time.Time) ([]Endpoint, time.Duration) { return f.set(now) }

// Remembered returns of how many endpoints is known that they have left.
func (f Flaps) Remembered() int { return len(f.history) }

// AskOnce asks a DNS server for a service once, and returns the least time to live; -1 if there was none.
func AskOnce(ctx context.Context, server, service string) time.Duration {
	d := NewDNS(&DNSOptions{Server: server})
	ask, err := d.question(service)
	if err != nil {
		return -2
	}
	var seen leastTTL
	_, _ = ask(context.WithValue(ctx, ttlKey{}, &seen))
	return seen.least(-1)
}
