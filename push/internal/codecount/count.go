// Package codecount counts occurrences by code.
package codecount

import (
	"math"
	"sync/atomic"
)

// Other stands for all codes that are not known.
const Other = math.MaxUint32

// Codes counts a few known codes each, and all others together, so that what others send cannot make it grow. All methods may be called
// concurrently.
type Codes struct {
	known  []uint32
	counts []atomic.Uint64 // one more than are known
}

// Of returns counters for the known codes, of which there should be no more than a few dozen: they are searched one by one.
func Of(known ...uint32) *Codes {
	return &Codes{known: known, counts: make([]atomic.Uint64, len(known)+1)}
}

// Add counts one occurrence.
func (c *Codes) Add(code uint32) {
	for i, k := range c.known {
		if k == code {
			c.counts[i].Add(1)
			return
		}
	}
	c.counts[len(c.known)].Add(1)
}

// Read returns how often each known code, and [Other], occurred.
func (c *Codes) Read() map[uint32]uint64 {
	out := make(map[uint32]uint64, len(c.counts))
	for i, k := range c.known {
		out[k] = c.counts[i].Load()
	}
	out[Other] = c.counts[len(c.known)].Load()
	return out
}
