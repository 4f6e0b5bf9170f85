// Package expiry holds when a client's connection and subscriptions end, unless they are refreshed.
package expiry

import "sync"

// Ends is when a connection and its subscriptions end: by a clock in milliseconds, with the grace in which a refresh may still come. 0 is never. The zero
// Ends is ready. Its methods may be called concurrently.
type Ends struct {
	mu            sync.Mutex // guards what follows
	connection    int64
	subscriptions map[string]int64
}

// Next returns the first of the times, 0 if there is none.
func (e *Ends) Next() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.connection
	for _, at := range e.subscriptions {
		first = Sooner(first, at)
	}
	return first
}

// Due returns what has ended at a time: whether the connection has, and the channels whose subscriptions have, which it forgets.
func (e *Ends) Due(now int64) (connection bool, subscriptions []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	connection = e.connection > 0 && now >= e.connection
	for channel, at := range e.subscriptions {
		if now >= at {
			subscriptions = append(subscriptions, channel)
			delete(e.subscriptions, channel)
		}
	}
	return connection, subscriptions
}

// SetConnection notes when the connection ends.
func (e *Ends) SetConnection(at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connection = at
}

// Set notes when the subscription to a channel ends.
func (e *Ends) Set(channel string, at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case at == 0:
		delete(e.subscriptions, channel)
	case e.subscriptions == nil:
		e.subscriptions = map[string]int64{channel: at}
	default:
		e.subscriptions[channel] = at
	}
}

// Sooner returns the earlier of two times.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
