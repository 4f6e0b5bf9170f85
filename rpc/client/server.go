package client

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc"
)

// stableAfter is how old a connection has to be for its end not to count as a failure.
const stableAfter = 10 * time.Second

// server is a server of the set, or one that has left it and may return. A goroutine dials it while it has too few connections; otherwise it has none.
type server struct {
	conns atomic.Pointer[[]*rpc.Conn] // that make calls; a new slice for each change
	next  atomic.Uint32               // the connection for the next call, if there are several

	// Guarded by the client's mutex.
	endpoint discovery.Endpoint
	left     chan struct{}      // closed when the server returns; nil while it is in the set
	dialing  bool               // a goroutine dials it
	stop     context.CancelFunc // ends the goroutine's wait, or dial; nil before the first
	failed   int                // failures in a row
	err      error              // of the last dial, nil if it succeeded
}

// link is a connection that makes calls.
type link struct {
	server *server
	since  time.Time
}

func newServer() *server {
	s := &server{}
	s.conns.Store(&[]*rpc.Conn{})
	return s
}

// usable returns the connections that make calls. One may have ended a moment ago: see conn. The slice must not be changed.
func (s *server) usable() []*rpc.Conn { return *s.conns.Load() }

// conn returns a connection that makes calls, nil if there is none.
func (s *server) conn() *rpc.Conn {
	conns := s.usable()
	first := uint32(0)
	if len(conns) > 1 {
		first = s.next.Add(1)
	}
	for i := range conns {
		if conn := conns[(int(first)+i)%len(conns)]; conn.Usable() {
			return conn
		}
	}
	return nil
}

// connectLocked begins to dial a server if it has too few connections.
func (c *Client) connectLocked(s *server) {
	if !s.dialing && !c.closed && s.left == nil && len(s.usable()) < c.options.Conns {
		s.dialing = true
		c.running.Go(func() { c.connect(s) })
	}
}

// connect dials a server until it has enough connections, until it has left the set, or until the client is closed.
func (c *Client) connect(s *server) {
	for {
		c.mu.Lock()
		if c.closed || s.left != nil || len(s.usable()) >= c.options.Conns {
			s.dialing = false
			c.mu.Unlock()
			return
		}
		ctx, stop := context.WithCancel(c.working)
		s.stop = stop
		e, wait := s.endpoint, c.backoff(s.failed)
		c.mu.Unlock()
		if pause(ctx, wait) {
			conn, err := c.dial(ctx, e)
			c.dialed(s, conn, err)
		}
		stop()
	}
}

// backoff returns how long to wait after a number of failures.
func (c *Client) backoff(failed int) time.Duration {
	if failed == 0 {
		return 0
	}
	most := min(float64(c.options.Cap), float64(c.options.Base)*math.Exp2(float64(failed-1)))
	return time.Duration(rand.Int64N(int64(most) + 1)) //nolint:gosec // not a secret
}

// dialed takes the result of a dial.
func (c *Client) dialed(s *server, conn *rpc.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.dials.Add(1)
	if err != nil {
		if c.closed || s.left != nil { // it was interrupted
			return
		}
		if s.err == nil {
			c.options.Logger.Warn("a server cannot be reached", "service", c.service, "server", s.endpoint.Address, "error", err)
		}
		s.failed++
		s.err = err
		c.counts.failures.Add(1)
		return
	}
	s.err = nil
	conns := append(slices.Clone(s.usable()), conn)
	s.conns.Store(&conns)
	c.conns[conn] = link{s, time.Now()}
	if c.closed || s.left != nil || !conn.Usable() { // lose was called before the connection was known
		c.retireLocked(conn, 0)
		return
	}
	c.publishLocked()
}

// lose is called when a connection makes no more calls. Another one replaces it.
func (c *Client) lose(conn *rpc.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.conns[conn].server
	if s == nil {
		return
	}
	c.retireLocked(conn, 0)
	c.connectLocked(s)
}

// retireLocked takes a connection out of use. It ends when its calls have, or after limit if that is positive.
func (c *Client) retireLocked(conn *rpc.Conn, limit time.Duration) {
	l := c.conns[conn]
	if l.server == nil {
		return
	}
	delete(c.conns, conn)
	conns := slices.DeleteFunc(slices.Clone(l.server.usable()), func(one *rpc.Conn) bool { return one == conn })
	l.server.conns.Store(&conns)
	if time.Since(l.since) >= stableAfter {
		l.server.failed = 0
	} else {
		l.server.failed++
	}
	c.publishLocked()
	c.drainLocked(conn, limit)
}

// drainLocked ends a connection when its calls have ended, or after limit if that is positive.
func (c *Client) drainLocked(conn *rpc.Conn, limit time.Duration) {
	c.running.Go(func() {
		ctx, cancel := c.open, context.CancelFunc(func() {})
		if limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		defer cancel()
		_ = conn.Shutdown(ctx)
	})
}

// leaveLocked takes a server that has left the set out of use. Its connections stay for a while, in case it returns.
func (c *Client) leaveLocked(s *server) {
	left := make(chan struct{})
	s.left = left
	if s.stop != nil {
		s.stop()
	}
	if len(s.usable()) == 0 || c.options.Linger <= 0 {
		c.removeLocked(s)
		return
	}
	c.running.Go(func() {
		timer := time.NewTimer(c.options.Linger)
		defer timer.Stop()
		select {
		case <-left:
		case <-c.working.Done():
		case <-timer.C:
			c.mu.Lock()
			defer c.mu.Unlock()
			if s.left == left && !c.closed {
				c.removeLocked(s)
				c.tabulateLocked()
			}
		}
	})
}

// removeLocked forgets a server that has left the set, and ends its connections.
func (c *Client) removeLocked(s *server) {
	delete(c.servers, s.endpoint.Address)
	for _, conn := range s.usable() {
		c.retireLocked(conn, c.options.DrainTimeout)
	}
}

// returnLocked notes that a server is in the set again.
func (s *server) returnLocked() {
	close(s.left)
	s.left, s.failed = nil, 0
}
