package pace

import (
	"sync"
	"time"
)

// Change is a pending change of a client's pace: the newest setting of each kind. A setting that is nil, or an item that is absent, stays as it is.
type Change[S comparable] struct {
	Bandwidth *int64
	Intervals map[S]time.Duration // by subscription
}

// Changes are the changes that clients of type C have not applied yet, for subscriptions of type S. They are held here because a goroutine that
// adds a change must not wait for the lock of the client. All methods may be called concurrently. The zero value is empty.
type Changes[C, S comparable] struct {
	mu   sync.Mutex
	open map[C]*Change[S] // guarded by mu
}

// SetBandwidth adds a change of a client's bandwidth.
func (o *Changes[C, S]) SetBandwidth(client C, bandwidth int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(client).Bandwidth = &bandwidth
}

// SetInterval adds a change of the interval of a client's subscription.
func (o *Changes[C, S]) SetInterval(client C, subscription S, interval time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.of(client)
	if c.Intervals == nil {
		c.Intervals = make(map[S]time.Duration)
	}
	c.Intervals[subscription] = interval
}

// of returns the change of a client. The lock is held.
func (o *Changes[C, S]) of(client C) *Change[S] {
	c := o.open[client]
	if c == nil {
		c = &Change[S]{}
		if o.open == nil {
			o.open = make(map[C]*Change[S])
		}
		o.open[client] = c
	}
	return c
}

// Take removes and returns the change of a client.
func (o *Changes[C, S]) Take(client C) Change[S] {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.open[client]
	if c == nil {
		return Change[S]{}
	}
	delete(o.open, client)
	return *c
}

// Len returns the number of clients with a change.
func (o *Changes[C, S]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}
