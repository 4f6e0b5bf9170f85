package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/errclosed"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
)

// ErrClosed says that the client is closed, or shutting down. It is a net.ErrClosed.
var ErrClosed error = errclosed.Error("rpc/client: the client is closed")

// Client makes calls to the servers of a service. All methods may be called concurrently.
type Client struct {
	options  Options
	service  string
	balancer *balance.Balancer                  // has the servers that are connected
	conn     rpc.ConnOptions                    // of each connection
	table    atomic.Pointer[map[string]*server] // servers by address; a new map for each change
	counts   counts

	working context.Context    // done when Close or Shutdown begins: no more watching, dialing, lingering
	stop    context.CancelFunc // of working
	open    context.Context    // done when the connections that are left have to end
	abort   context.CancelFunc // of open
	running sync.WaitGroup     // all goroutines; added to under mu while the client is not closed

	mu         sync.Mutex // guards what follows; never held while something waits
	servers    map[string]*server
	conns      map[*rpc.Conn]link // that make calls
	known      bool               // the resolver has reported a set
	watchErr   error              // why the resolver reports nothing any more
	closed     bool
	changed    chan struct{} // closed, and replaced, when the connected servers have changed, and when watchErr or closed is set
	connected  int           // how many servers the balancer has
	stale      bool          // the balancer has to be told of a change
	publishing bool          // a goroutine tells it
}

// New makes a client of a service, and connects to its servers. Nil options are all defaults; options are copied. The resolver remains the caller's,
// and has to work until the client is closed.
func New(resolver discovery.Resolver, service string, o *Options) *Client {
	if resolver == nil {
		panic("rpc/client: a client needs a resolver")
	}
	c := &Client{
		options: o.withDefaults(), service: service, changed: make(chan struct{}), servers: map[string]*server{}, conns: map[*rpc.Conn]link{},
	}
	c.balancer = balance.New(c.options.Balance)
	c.table.Store(&map[string]*server{})
	if c.options.Conn != nil {
		c.conn = *c.options.Conn
	}
	c.conn.AwaitServer = true
	users := c.conn.Unusable
	c.conn.Unusable = func(one *rpc.Conn) {
		c.lose(one)
		if users != nil {
			users(one)
		}
	}
	c.working, c.stop = context.WithCancel(context.Background())
	c.open, c.abort = context.WithCancel(context.Background())
	c.running.Go(func() { c.watchEnded(resolver.Watch(c.working, service, c.update)) })
	return c
}

// update takes the set that the resolver reports.
func (c *Client) update(set []discovery.Endpoint) {
	set, err := discovery.Normalize(slices.Clone(set))
	if err != nil {
		c.options.Logger.Warn("the service has endpoints that are not valid", "service", c.service, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.known = true
	present := make(map[string]bool, len(set))
	for i := range set {
		e := &set[i]
		present[e.Address] = true
		s := c.servers[e.Address]
		if s == nil {
			s = newServer()
			c.servers[e.Address] = s
		}
		s.endpoint = *e
		if s.left != nil {
			s.returnLocked()
		}
		c.connectLocked(s)
	}
	for address, s := range c.servers {
		if !present[address] && s.left == nil {
			c.leaveLocked(s)
		}
	}
	c.tabulateLocked()
	c.publishLocked()
}

// watchEnded notes that the resolver has ended. The servers that are known stay.
func (c *Client) watchEnded(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if err == nil {
		err = errors.New("the resolver has ended")
	}
	c.watchErr = err
	c.options.Logger.Error("the servers of a service are not watched any more", "service", c.service, "error", err)
	c.wakeLocked()
}

// tabulateLocked replaces the table by one of the present servers.
func (c *Client) tabulateLocked() {
	table := make(map[string]*server, len(c.servers))
	for address, s := range c.servers {
		table[address] = s
	}
	c.table.Store(&table)
}

// publishLocked starts the goroutine that tells the balancer which servers are connected, if it does not run yet. So many changes at once cost one.
func (c *Client) publishLocked() {
	c.stale = true
	if !c.publishing && !c.closed {
		c.publishing = true
		c.running.Go(c.publish)
	}
}

// publish tells the balancer which servers are connected, until it has been told of the last change.
func (c *Client) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stale {
		c.stale = false
		var set []discovery.Endpoint
		for _, s := range c.servers {
			if s.left == nil && len(s.usable()) > 0 {
				set = append(set, s.endpoint)
			}
		}
		c.mu.Unlock()
		_ = c.balancer.Set(set) // all are valid
		c.mu.Lock()
		c.connected = len(set)
		c.wakeLocked()
	}
	c.publishing = false
}

// wakeLocked wakes the calls, and calls of Wait, that wait for a change.
func (c *Client) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Wait waits until the servers are known and calls can be made to n of them, which may be zero. The errors are that of ctx, with the last errors of
// servers that cannot be reached; [ErrClosed]; and the error with which the resolver has ended.
func (c *Client) Wait(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		changed, closed, done := c.changed, c.closed, c.known && c.connected >= n
		err := c.hopelessLocked()
		c.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case done:
			return nil
		case err != nil:
			return fmt.Errorf("rpc/client: the servers of %q are not known: %w", c.service, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("rpc/client: %s: %w", c.state(), ctx.Err())
		}
	}
}

// hopelessLocked returns why there will be no server; nil if there may be one.
func (c *Client) hopelessLocked() error {
	if len(c.servers) == 0 {
		return c.watchErr
	}
	return nil
}

// state says why calls cannot be made.
func (c *Client) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return fmt.Sprintf("the servers of %q are not known yet", c.service)
	}
	const most = 3
	var errs []string
	n := 0
	for _, s := range c.servers {
		if s.left != nil {
			continue
		}
		if n++; s.err != nil && len(errs) < most {
			errs = append(errs, inner{s.err, rpc.Unavailable}.Error())
		}
	}
	slices.Sort(errs)
	return strings.Join(append([]string{fmt.Sprintf("%d of the %d servers of %q are connected", c.connected, n, c.service)}, errs...), "; ")
}

// Close ends the client at once. Calls under way fail with [rpc.Lost], and new ones with [rpc.Unavailable]. Close returns when all connections have ended,
// and always nil.
func (c *Client) Close() error {
	c.startClosing()
	c.abort()
	c.running.Wait()
	return nil
}

// Shutdown ends the client when the calls that were sent have their answers; other calls fail with [rpc.Unavailable]. If ctx is done first, Shutdown does
// what Close does, and returns the error of ctx.
func (c *Client) Shutdown(ctx context.Context) error {
	c.startClosing()
	defer context.AfterFunc(ctx, c.abort)()
	c.running.Wait()
	err := context.Cause(c.open)
	c.abort()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// startClosing makes all later calls fail, and lets connections end when their calls have ended. No new ones are made.
func (c *Client) startClosing() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for conn := range c.conns {
		c.retireLocked(conn, 0)
	}
	c.closed = true
	c.wakeLocked()
}

// dial makes a connection to a server.
func (c *Client) dial(ctx context.Context, e discovery.Endpoint) (*rpc.Conn, error) {
	if c.options.DialTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.DialTimeout)
		defer cancel()
	}
	if c.options.Dial == nil {
		network, address := e.Network()
		return rpc.Dial(ctx, network, address, &c.conn)
	}
	var conn net.Conn
	conn, err := c.options.Dial(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", e.Address, err)
	}
	return rpc.NewConn(ctx, conn, &c.conn)
}

// pause waits, and reports false if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
