// Package reasoncount counts occurrences by the reason given for them, for example why connections failed.
package reasoncount

import "sync"

// Counts counts occurrences by reason. The first fifty different reasons have a count each, and all further ones share the count of [Other].
// Reasons are cut to [MaxReason] bytes. The answers of a server therefore cannot make a Counts grow without bound. The zero Counts is ready to
// use. All methods may be called concurrently.
type Counts struct {
	mu     sync.Mutex
	counts map[string]int
}

const (
	// MaxReason is how many bytes of a reason are kept.
	MaxReason = 200
	// Other stands for all reasons beyond the first fifty.
	Other = "other reasons"

	maxReasons = 50
)

// Add counts n occurrences for a reason.
func (c *Counts) Add(reason string, n int) {
	if len(reason) > MaxReason {
		reason = reason[:MaxReason]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	if _, known := c.counts[reason]; !known && len(c.counts) >= maxReasons {
		reason = Other
	}
	c.counts[reason] += n
}

// All returns a copy of the counts, or nil if there are none. The caller owns it.
func (c *Counts) All() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out map[string]int
	for reason, n := range c.counts {
		if out == nil {
			out = map[string]int{}
		}
		out[reason] = n
	}
	return out
}
