package client

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc/balance"
)

// counts are the counters of Stats.
type counts struct {
	retries, exhausted, waits, dials, failures atomic.Uint64
}

// Stats counts what a client has done since it was made, and what it sees now.
type Stats struct {
	Retries   uint64 // attempts after the first one
	Exhausted uint64 // attempts that Options.Budget has not allowed
	Waits     uint64 // calls that found no server connected, and waited or failed
	Dials     uint64 // attempts to connect
	Failures  uint64 // of those
	Servers   int    // in the set
	Connected int    // servers that calls can be made to
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	n := &c.counts
	s := Stats{
		Retries: n.retries.Load(), Exhausted: n.exhausted.Load(), Waits: n.waits.Load(), Dials: n.dials.Load(), Failures: n.failures.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.servers {
		if one.left == nil {
			s.Servers++
		}
	}
	s.Connected = c.connected
	return s
}

// Server is what a client sees of a server.
type Server struct {
	Endpoint discovery.Endpoint
	Conns    int   // connections that make calls
	Pending  int   // calls under way on these
	Ejected  bool  // the server gets no calls now, because it has failed
	Err      error // of the last dial; nil if the server was reached
}

// Servers returns the servers of the set, sorted by address.
func (c *Client) Servers() []Server {
	targets := map[string]*balance.Target{}
	for _, t := range c.balancer.Targets() {
		targets[t.Endpoint.Address] = t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Server, 0, len(c.servers))
	for address, s := range c.servers {
		if s.left != nil {
			continue
		}
		one := Server{Endpoint: s.endpoint, Err: s.err}
		for _, conn := range s.usable() {
			one.Conns++
			one.Pending += conn.Pending()
		}
		if t := targets[address]; t != nil {
			one.Ejected = t.Ejected()
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Server) int { return cmp.Compare(a.Endpoint.Address, b.Endpoint.Address) })
	return out
}
