// Package crew runs pieces of work that may block on goroutines that are kept while there is more to do: a stack that has grown is worth
// more than a new one.
package crew

import (
	"slices"
	"sync"
)

// Crew has each piece of work done at once, by a goroutine that has ended another, or by a new one. There are as many as there are pieces
// at a time, until they are dismissed. The methods may be called concurrently; a Crew must not be copied.
type Crew[T any] struct {
	most int
	do   func(T)
	rest func()

	mu     sync.Mutex
	idle   []chan T // of those that wait; the last to come is the first to go
	spare  int      // so many have waited all the time since the last Dismiss
	closed bool

	running sync.WaitGroup
}

// New returns a crew without goroutines, of which at most so many will wait for work. do does a piece of work. rest is called when a goroutine
// has come to rest, so that somebody sees to it that it is dismissed when nothing happens any more; it must not wait, nor call the crew.
func New[T any](most int, do func(T), rest func()) *Crew[T] {
	return &Crew[T]{most: most, do: do, rest: rest}
}

// Give has a piece of work done. It does not wait. After Dismiss for good somebody still does it.
func (c *Crew[T]) Give(piece T) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		next := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.spare = min(c.spare, n-1)
		c.mu.Unlock()
		next <- piece
		return
	}
	c.mu.Unlock()
	c.running.Add(1)
	go c.run(piece)
}

// run does a first piece of work, which may need all of the stack that a goroutine begins with.
func (c *Crew[T]) run(piece T) {
	defer c.running.Done()
	c.do(piece)
	c.goOn()
}

// goOn does others.
func (c *Crew[T]) goOn() {
	for next := make(chan T, 1); c.wait(next); {
		piece, more := <-next
		if !more {
			return
		}
		c.do(piece)
	}
}

// wait puts next among those that wait, unless there are enough, or nobody is needed any more.
func (c *Crew[T]) wait(next chan T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= c.most {
		return false
	}
	c.idle = append(c.idle, next)
	c.rest()
	return true
}

// Dismiss ends the goroutines that were not needed since it was called the last time, and reports whether others wait for work. For good, if
// nobody will be needed any more, it ends all that wait, and the others end with their work.
func (c *Crew[T]) Dismiss(forGood bool) (others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = c.closed || forGood; c.closed {
		c.spare = len(c.idle)
	}
	for _, next := range c.idle[:c.spare] {
		close(next)
	}
	c.idle = slices.Delete(c.idle, 0, c.spare)
	c.spare = len(c.idle)
	return c.spare > 0
}

// Wait waits until all have ended, which they do after Dismiss for good.
func (c *Crew[T]) Wait() { c.running.Wait() }
