package session

import "sync"

// crew are the goroutines that take turns of sessions whose handlers block. They are kept while there is more to do, because a stack
// that has grown is worth more than a new one, and dismissed by the watch when nothing happens any more.
type crew struct {
	mu sync.Mutex
	// Guarded by mu.
	idle   []chan away // of those that wait; the last to come is the first to go
	closed bool

	ended sync.WaitGroup
}

// away is a turn that is not the driver's.
type away struct {
	s *Session
	t turn
}

// give has somebody take a turn.
func (c *crew) give(a away) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		work := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		work <- a
		return
	}
	c.mu.Unlock()
	c.ended.Add(1)
	go c.run(a)
}

// run takes turns.
func (c *crew) run(a away) {
	defer c.ended.Done()
	var work chan away
	for more := true; more; a, more = <-work {
		a.s.turnAway(a.t)
		if work == nil {
			work = make(chan away, 1)
		}
		if !c.rest(work, a.s.srv) {
			return
		}
	}
}

// rest puts work among those that wait, unless nobody is needed any more.
func (c *crew) rest(work chan away, srv *Server) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.idle = append(c.idle, work)
	srv.watch.ensure()
	return true
}

// dismiss ends all who wait; for good, if nobody will be needed any more.
func (c *crew) dismiss(forGood bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = c.closed || forGood
	for _, work := range c.idle {
		close(work)
	}
	c.idle = nil
}
