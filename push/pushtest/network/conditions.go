package network

import (
	"fmt"
	"time"
)

// Conditions say how weak a network is. The zero value is a network without weaknesses. They are values: copy and compare them.
type Conditions struct {
	Up   Way // from who connected to the target
	Down Way // from the target to who connected

	// Stalls are times in which nothing moves in either direction, though connections stay open. Each connection has its own.
	Stalls Stalls
	// Reset is how long a connection lives on average until both its sides are reset, with lives distributed exponentially. 0: never.
	Reset time.Duration
	// HalfOpen is how long it takes on average until a connection is half open, see [Proxy.HalfOpen], distributed likewise. 0: never.
	HalfOpen time.Duration
	// Refuse is whether new connections are refused.
	Refuse bool
	// Seed is of everything that is random: the same seed gives the connection of the same number the same stalls and the same end.
	Seed uint64
}

// Way is one direction of a network.
type Way struct {
	// Delay is how long a byte is under way at least.
	Delay time.Duration
	// Jitter is what may come on top of Delay, from 0 up to this, all alike. What arrived later does not leave earlier.
	Jitter time.Duration
	// Bandwidth is how many bytes a second leave at most. Those of a fiftieth of a second may leave at once, or 1,460, which is a packet, when
	// that is more. 0: as many as there are.
	Bandwidth int64
	// Buffer is how many bytes are under way at most. What is beyond stays with the sender. 0: what the bandwidth carries in twice the longest
	// delay, but from 16 KiB to 1 MiB; 1 MiB without Bandwidth.
	Buffer int
}

// Stalls are times in which nothing moves. The zero value is none.
type Stalls struct {
	// Least and Most are how long one lasts, all lengths between them alike.
	Least, Most time.Duration
	// Every is how long it takes on average from the end of one to the beginning of the next, distributed exponentially.
	Every time.Duration
}

// The limits of conditions.
const (
	maxTime      = time.Hour
	leastStall   = time.Millisecond
	maxBandwidth = 10_000_000_000 // bytes a second
	maxBuffer    = 64 << 20
)

// The buffers of ways that name none.
const (
	leastBuffer = 16 << 10
	mostBuffer  = 1 << 20
)

// buffer is how many bytes are under way at most.
func (w *Way) buffer() int {
	switch {
	case w.Buffer > 0:
		return w.Buffer
	case w.Bandwidth == 0:
		return mostBuffer
	}
	carried := float64(w.Bandwidth) * 2 * (w.Delay + w.Jitter).Seconds()
	return int(min(max(carried, leastBuffer), mostBuffer))
}

// Validate says what is wrong with conditions: the first thing that is, and what it has to be. What [ParseConditions] returns is right.
func (c *Conditions) Validate() error {
	for _, w := range []struct {
		name string
		way  *Way
	}{{"up", &c.Up}, {"down", &c.Down}} {
		for _, t := range []struct {
			name string
			time time.Duration
		}{{"delay", w.way.Delay}, {"jitter", w.way.Jitter}} {
			if t.time < 0 || t.time > maxTime {
				return fmt.Errorf("network: %s-%s of %v: it has to be 0 to %v", t.name, w.name, t.time, maxTime)
			}
		}
		if b := w.way.Bandwidth; b < 0 || b > maxBandwidth {
			return fmt.Errorf("network: bandwidth %s of %d bytes a second: it has to be 1 to %d, or 0 for no limit", w.name, b, int64(maxBandwidth))
		}
		if b := w.way.Buffer; b < 0 || b > maxBuffer {
			return fmt.Errorf("network: buffer-%s of %d bytes: it has to be 1 to %d, or 0 for what suits the bandwidth", w.name, b, maxBuffer)
		}
	}
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"reset", c.Reset}, {"halfopen", c.HalfOpen}} {
		if t.time < 0 || t.time > maxTime {
			return fmt.Errorf("network: %s after %v: it has to be above 0 and at most %v, or 0 for never", t.name, t.time, maxTime)
		}
	}
	return c.Stalls.validate()
}

func (s *Stalls) validate() error {
	switch {
	case *s == Stalls{}:
		return nil
	case s.Least < leastStall || s.Most < s.Least || s.Most > maxTime:
		return fmt.Errorf("network: stalls of %v to %v: they have to last from %v to %v, the shorter time first", s.Least, s.Most, leastStall,
			maxTime)
	case s.Every <= 0 || s.Every > maxTime:
		return fmt.Errorf("network: stalls every %v: it has to be above 0 and at most %v", s.Every, maxTime)
	}
	return nil
}
