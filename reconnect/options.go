package reconnect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/sluice-push/sluice/internal/closed"
	"github.com/sluice-push/sluice/session"
)

// Errors that callers branch on, with errors.Is.
var (
	// ErrClosed says that the pool is closed, or shutting down. It is a net.ErrClosed.
	ErrClosed error = closed.Error("reconnect: pool closed")
	// ErrNone says that no session is open now; the error also wraps what kept some of them from it.
	ErrNone = errors.New("reconnect: no session is open")
	// ErrGaveUp says that so many slots have given up that what was asked for will not come; the error also wraps what made them.
	ErrGaveUp = errors.New("reconnect: gave up")
	// ErrRetired is the cause of a session that was ended because its address left the pool.
	ErrRetired = errors.New("reconnect: address is no longer used")
	// ErrOptions says that a pool cannot be made of such options.
	ErrOptions = errors.New("reconnect: bad options")
)

// Options are the settings of a pool. Addresses are needed; all else may be zero. For every number and duration zero means the default
// and negative means off, unless it says something else. Functions may call any method of the pool.
type Options struct {
	// Network is "tcp", "tcp4", "tcp6" or "unix", or anything that Dial knows; default "tcp".
	Network string
	// Addresses are where the sessions go, in the form that [session.Client.Dial] or Dial wants. One that is named twice counts once.
	Addresses []string
	// Sessions is how many sessions there are in all, spread over the addresses as evenly as it goes, so that what a pool costs
	// does not grow with what is discovered. If there are more addresses than sessions, some are picked at random, and the others left
	// to the pools of others. Zero is one session for each address, also after SetAddresses. Negative is refused.
	Sessions int
	// Pick is the policy by which sessions are chosen; default RoundRobin.
	Pick Policy

	// Handler is the handler of all sessions that Attach gives no other. Nil is one that says Pull: messages are received. The
	// client's own handler is not used. It must not be changed afterwards. See [Pool.SetHandler] for a handler that is replaced.
	Handler *session.Handler
	// Attach says how the session that is about to be dialed differs from the others; nil, and a nil result, is not at all. It
	// runs on the goroutine that dials, for several slots at a time. Slots have the numbers from 0 on; those that SetAddresses makes
	// have new ones.
	Attach func(slot int, address string) *session.Attach
	// Dial makes a connection, instead of the client: through a proxy, over SSH, in memory. The client's options for TLS are not
	// used then. It has to return soon after ctx is done, because Close waits for it, and owns nothing of the connection after that.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialSession makes a session, where a client of another package does that, with a handshake of its own: DialSession of a client of
	// package websocket. The session has to be run with what wrap returns instead of its own handler, which is what wrap has to be given.
	// The client of New may be nil then, and Network, Handler, Attach and Dial are refused. It has to return soon after ctx is done.
	DialSession func(ctx context.Context, address string, wrap func(*session.Handler) *session.Handler) (*session.Session, error)
	// Resume makes an open session ready to be used: see the package comment. An error, or a panic, ends the session, and the slot
	// backs off. ctx is done when the session or the slot ends, and after ResumeTimeout; Close waits until Resume has returned.
	Resume func(ctx context.Context, s *session.Session) error
	// State is told of each change of a slot: in order, one after the other for one slot, for several slots at a time, and
	// without any lock. The slot goes on when it has returned, so it must not wait for that.
	State func(Event)

	// Base and Cap bound the random time before an attempt: it is between zero and min(Cap, Base·2ⁿ). Defaults 100 ms and 30 s.
	// Negative ones, and a Cap below Base, are refused.
	Base, Cap time.Duration
	// Jitter returns the time to wait, of which most is the bound above; what it returns is cut to between zero and that. Nil
	// is a uniformly random one.
	Jitter func(most time.Duration) time.Duration
	// Proven is how long a session has to stay open for its slot to begin counting anew; default 10 s. Negative is no time at all.
	Proven time.Duration
	// MaxAttempts is how many attempts in a row may fail before a slot gives up. A session that ended before it had proved itself
	// counts as one that failed. Zero and negative are for ever.
	MaxAttempts int
	// MoveAfter is after how many failures in a row at one address a slot tries the next one of the list. It stays where it
	// succeeds, until SetAddresses spreads the sessions anew. Zero and negative are never.
	MoveAfter int

	// DialTimeout bounds connecting, TLS included, and Open of the handler; default 10 s. With it off the client's HandshakeTimeout
	// still bounds the former.
	DialTimeout time.Duration
	// ResumeTimeout is how long Resume has before its context is done; default 10 s.
	ResumeTimeout time.Duration
	// DrainTimeout is how long a session of an address that left, or of a pool that is shutting down, has for its leases and for
	// its goodbye before it is aborted; default 10 s.
	DrainTimeout time.Duration

	// Logger is told of panics, at Error, and of slots that gave up, at Warn; nil discards.
	Logger *slog.Logger

	contradicts bool // DialSession comes with what it has no use for
}

// withDefaults returns a copy of o in which every field says what it means: what is off is 0.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.DialSession != nil && (c.Network != "" || c.Handler != nil || c.Attach != nil || c.Dial != nil) {
		c.contradicts = true
	}
	if c.Network == "" {
		c.Network = "tcp"
	}
	if c.Pick == 0 {
		c.Pick = RoundRobin
	}
	if c.Handler == nil {
		c.Handler = &session.Handler{Pull: true}
	}
	if c.Base == 0 {
		c.Base = 100 * time.Millisecond
		if c.Cap > 0 {
			c.Base = min(c.Base, c.Cap)
		}
	}
	if c.Cap == 0 {
		c.Cap = max(30*time.Second, c.Base)
	}
	c.Proven = duration(c.Proven)
	c.MaxAttempts = max(c.MaxAttempts, 0)
	c.MoveAfter = max(c.MoveAfter, 0)
	c.DialTimeout = duration(c.DialTimeout)
	c.ResumeTimeout = duration(c.ResumeTimeout)
	c.DrainTimeout = duration(c.DrainTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Addresses = distinct(c.Addresses)
	return c
}

// check says what is wrong with options that are read.
func (o *Options) check() error {
	switch {
	case o.contradicts:
		return fmt.Errorf("%w: DialSession has no use for Network, Handler, Attach and Dial", ErrOptions)
	case len(o.Addresses) == 0:
		return fmt.Errorf("%w: no address", ErrOptions)
	case o.Sessions < 0:
		return fmt.Errorf("%w: %d sessions", ErrOptions, o.Sessions)
	case o.Base < 0 || o.Cap < o.Base:
		return fmt.Errorf("%w: back-off from %v to %v", ErrOptions, o.Base, o.Cap)
	case o.Pick > ByKey:
		return fmt.Errorf("%w: unknown policy %d", ErrOptions, o.Pick)
	}
	return nil
}

// duration reads an option of time: 10 s when it is zero, 0 when it is off.
func duration(d time.Duration) time.Duration {
	if d == 0 {
		return 10 * time.Second
	}
	return max(d, 0)
}

// distinct returns a copy of addresses in which each comes once, where it came first.
func distinct(addresses []string) []string {
	seen := make(map[string]bool, len(addresses))
	var out []string
	for _, a := range addresses {
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}
