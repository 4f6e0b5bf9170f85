package client

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
)

// Options are the settings of a [Client]. For every number and duration, zero is the default and negative means none, or off.
type Options struct {
	// Balance is how servers are chosen and ejected; nil is all defaults.
	Balance *balance.Options
	// Conn are the settings of all connections; nil is all defaults. Its interceptors run around each attempt of a call.
	Conn *rpc.ConnOptions
	// Conns is how many connections each server has; default 1. Calls take them in turn. More than one is for calls with bodies of many kilobytes.
	Conns int

	// MaxAttempts is how often one call is sent at most; default 3.
	MaxAttempts int
	// Budget bounds the attempts after the first one of all calls; nil is balance.NewBudget(0.2, 10). Clients may share a budget.
	Budget *balance.Budget
	// WaitTimeout is how long a call may wait for a server while none is connected; default 5 s. Off means that such calls fail at once.
	WaitTimeout time.Duration

	// DialTimeout bounds connecting, with the server's first answer; default 10 s. HandshakeTimeout of Conn.Session also bounds connecting.
	DialTimeout time.Duration
	// Base and Cap bound the random time before a server is dialed again, which is between zero and min(Cap, Base·2ⁿ) after n+1 failures in a row.
	// Defaults 100 ms and 5 s, never off. A connection that ends before it is ten seconds old counts as a failure.
	Base, Cap time.Duration
	// Linger is how long the connections of a server that has left the set are kept, in case the server returns; default 5 s.
	Linger time.Duration
	// DrainTimeout is how long calls that are under way at the end of Linger may still take; default 30 s. Off means as long as their contexts allow.
	DrainTimeout time.Duration
	// Dial makes connections, instead of package transport: through a proxy, or with TLS of its own. It must return soon after ctx is done.
	Dial func(ctx context.Context, e discovery.Endpoint) (net.Conn, error)

	// Logger gets a warning when a server cannot be reached, and no other until it was reached, and a warning for endpoints that are not valid; nil
	// discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Budget == nil {
		const share, rate = 0.2, 10
		out.Budget = balance.NewBudget(share, rate)
	}
	if out.MaxAttempts == 0 {
		out.MaxAttempts = 3
	}
	out.Conns, out.MaxAttempts = max(out.Conns, 1), max(out.MaxAttempts, 1)
	out.WaitTimeout = duration(out.WaitTimeout, 5*time.Second)
	out.DialTimeout = duration(out.DialTimeout, 10*time.Second)
	if out.Base <= 0 {
		out.Base = 100 * time.Millisecond
	}
	if out.Cap <= 0 {
		out.Cap = 5 * time.Second
	}
	out.Cap = max(out.Cap, out.Base)
	out.Linger = duration(out.Linger, 5*time.Second)
	out.DrainTimeout = duration(out.DrainTimeout, 30*time.Second)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// duration returns a duration of the options, zero if it is off.
func duration(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return max(d, 0)
}
