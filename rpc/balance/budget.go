package balance

import (
	"sync"
	"time"
)

// Budget allows retries as a share of the calls, and a few a second besides, so that a service that fails as a whole gets hardly more calls than usual.
// A Budget is made by [NewBudget]. Its methods may be called concurrently.
type Budget struct {
	share, rate, most float64

	mu     sync.Mutex // guards what follows
	tokens float64    // retries that are allowed now
	at     time.Time  // when rate was last added
}

// NewBudget makes a budget that allows retries for a share of the calls, such as 0.1, and rate of them a second besides. What is not used is kept
// for ten seconds. Zero and negative numbers allow nothing.
func NewBudget(share float64, rate int) *Budget {
	const seconds = 10
	b := &Budget{share: max(share, 0), rate: max(float64(rate), 0)}
	b.most = max(seconds*b.rate, 1)
	if b.share == 0 && b.rate == 0 {
		b.most = 0
	}
	b.tokens = min(b.rate, b.most)
	return b
}

// Call says that a call is made, which is no retry.
func (b *Budget) Call() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+b.share, max(b.most, 100*b.share))
}

// Retry reports whether a retry is allowed, and counts it.
func (b *Budget) Retry(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() && now.After(b.at) {
		b.tokens = min(b.tokens+b.rate*now.Sub(b.at).Seconds(), max(b.most, b.tokens))
	}
	if b.at.IsZero() || now.After(b.at) {
		b.at = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
