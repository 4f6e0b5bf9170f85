package network

import (
	"fmt"
	"time"
)

// Conditions describe a weak network. The zero value is a network without weaknesses. Conditions are values, and may be copied and compared.
type Conditions struct {
	Up   Way // from the client to the target
	Down Way // from the target to the client

	// Stalls are periods in which no bytes move in either direction, although connections stay open. Each connection has its own.
	Stalls Stalls
	// Reset is the mean time after which both sides of a connection are reset. The times are distributed exponentially. 0 means never.
	Reset time.Duration
	// HalfOpen is the mean time after which a connection becomes half open, see [Proxy.HalfOpen]. The times are distributed exponentially. 0
	// means never.
	HalfOpen time.Duration
	// Refuse says that new connections are refused.
	Refuse bool
	// Seed seeds all random events: with the same seed, the connection with the same number has the same stalls and the same end.
	Seed uint64
}

// Way is one direction of a network.
type Way struct {
	// Delay is the least time that a byte is under way.
	Delay time.Duration
	// Jitter is the largest random addition to Delay, which is distributed uniformly from 0. Bytes never overtake earlier ones.
	Jitter time.Duration
	// Bandwidth is the number of bytes a second; 0 means no limit. A burst may have the bytes of a fiftieth of a second, or 1,460, which is a
	// packet, if that is more.
	Bandwidth int64
	// Buffer is how many bytes may be under way. Further bytes stay with the sender. 0 means twice the longest delay times the bandwidth, but at
	// least 16 KiB and at most 1 MiB, or 1 MiB without Bandwidth.
	Buffer int
}

// Stalls are random periods in which no bytes move. The zero value means none.
type Stalls struct {
	// Least and Most bound the length of a stall, which is distributed uniformly between them.
	Least, Most time.Duration
	// Every is the mean time from the end of a stall to the beginning of the next, which is distributed exponentially.
	Every time.Duration
}

// The limits of conditions.
const (
	maxTime      = time.Hour
	leastStall   = time.Millisecond
	maxBandwidth = 10_000_000_000 // bytes a second
	maxBuffer    = 64 << 20
)

// The bounds of the default buffer.
const (
	leastBuffer = 16 << 10
	mostBuffer  = 1 << 20
)

// buffer returns how many bytes may be under way.
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

// Validate returns an error for the first wrong value, which says what the value has to be. Results of [ParseConditions] are valid.
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
				return fmt.Errorf("network: %s-%s of %v: use 0 to %v", t.name, w.name, t.time, maxTime)
			}
		}
		if b := w.way.Bandwidth; b < 0 || b > maxBandwidth {
			return fmt.Errorf("network: bandwidth %s of %d bytes per second: use 1 to %d, or 0 for no limit", w.name, b, int64(maxBandwidth))
		}
		if b := w.way.Buffer; b < 0 || b > maxBuffer {
			return fmt.Errorf("network: buffer-%s of %d bytes: use 1 to %d, or 0 for a size that suits the bandwidth", w.name, b, maxBuffer)
		}
	}
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"reset", c.Reset}, {"halfopen", c.HalfOpen}} {
		if t.time < 0 || t.time > maxTime {
			return fmt.Errorf("network: %s after %v: use more than 0 and at most %v, or 0 for never", t.name, t.time, maxTime)
		}
	}
	return c.Stalls.validate()
}

func (s *Stalls) validate() error {
	switch {
	case *s == Stalls{}:
		return nil
	case s.Least < leastStall || s.Most < s.Least || s.Most > maxTime:
		return fmt.Errorf("network: stalls of %v to %v: use %v to %v, the shorter time first", s.Least, s.Most, leastStall,
			maxTime)
	case s.Every <= 0 || s.Every > maxTime:
		return fmt.Errorf("network: stalls every %v: use more than 0 and at most %v", s.Every, maxTime)
	}
	return nil
}
