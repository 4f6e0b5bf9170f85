package reconnect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/sluice-push/sluice/internal/errclosed"
	"github.com/sluice-push/sluice/session"
)

// Errors of the pool, for errors.Is.
var (
	// ErrClosed says that the pool is closed, or shutting down. It is a net.ErrClosed.
	ErrClosed error = errclosed.Error("reconnect: pool closed")
	// ErrNone says that no session is open now. The error also wraps the last errors of some slots.
	ErrNone = errors.New("reconnect: no session is open")
	// ErrGaveUp says that so many slots have given up that the requested sessions will not come. The error also wraps the last errors of some of
	// these slots.
	ErrGaveUp = errors.New("reconnect: gave up")
	// ErrRetired is the reason for the end of a session whose address has left the pool.
	ErrRetired = errors.New("reconnect: address is no longer used")
	// ErrOptions says that the options are invalid.
	ErrOptions = errors.New("reconnect: bad options")
)

// Options are the settings of a pool. Addresses are required; all else may be zero. For every number and duration zero means the default and
// negative means off, unless its comment says something else. Functions may call any method of the pool.
type Options struct {
	// Network is "tcp", "tcp4", "tcp6" or "unix", or any network that Dial accepts; default "tcp".
	Network string
	// Addresses are the peers of the sessions, in the form that [session.Client.Dial] or Dial requires. A repeated address counts once.
	Addresses []string
	// Sessions is the number of sessions in all, spread over the addresses as evenly as possible. The cost of a pool thus does not grow with the
	// number of discovered addresses. If there are more addresses than sessions, the pool picks some at random and leaves the others to other
	// pools. Zero is one session for each address, also after SetAddresses. Negative is refused.
	Sessions int
	// Policy is the policy that chooses sessions; default RoundRobin.
	Policy Policy

	// Handler is the handler of all sessions for which Attach returns no other. Nil is a handler with Pull, whose messages the program receives.
	// The client's own handler is not used. The Handler must not be changed afterwards. To replace a session's handler, see [Pool.SetHandler].
	Handler *session.Handler
	// Attach returns the settings that the session about to be dialed has in place of the common ones. Nil, and a nil result, mean no
	// difference. It runs on the goroutine that dials, for several slots at a time. Slots have the numbers from 0 on; slots that SetAddresses
	// makes have new numbers.
	Attach func(slot int, address string) *session.Attach
	// Dial makes a connection, instead of the client: through a proxy, over SSH, in memory. The client's options for TLS are not used then. Dial
	// must return soon after ctx is done, because Close waits for it, and must not use the connection after its return.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialSession makes a session, instead of the client. It is for clients of other packages that have their own handshake: DialSession of a
	// client of package websocket, for example. It must call wrap with its own handler, and run the session with the handler that wrap returns.
	// The client of New may be nil then, and Network, Handler, Attach and Dial are refused. It must return soon after ctx is done.
	DialSession func(ctx context.Context, address string, wrap func(*session.Handler) *session.Handler) (*session.Session, error)
	// Resume makes an open session ready for use: see the package comment. After an error or a panic, the pool ends the session and the slot
	// backs off. The context is done when the session or the slot ends, and after ResumeTimeout. Close waits until Resume has returned.
	Resume func(ctx context.Context, s *session.Session) error
	// State is called with each change of a slot: in order and one after the other for one slot, concurrently for different slots, and without
	// any lock. The slot continues after State has returned, so State must not wait for a later change of that slot.
	State func(Event)

	// Base and Cap bound the random wait before an attempt, which is between zero and min(Cap, Base·2ⁿ). Defaults 100 ms and 30 s. Negative
	// ones, and a Cap below Base, are refused.
	Base, Cap time.Duration
	// Jitter returns the time to wait. Its argument most is the bound above; the result is cut to the range from zero to most. Nil chooses a
	// uniformly random time.
	Jitter func(most time.Duration) time.Duration
	// StableAfter is how long a session must stay open before its slot resets its back-off and its count of failures; default 10 s. Negative means
	// that every open session resets them.
	StableAfter time.Duration
	// MaxAttempts is the number of attempts in a row that may fail before a slot gives up. A session that ended before it was open for StableAfter
	// counts as a failed attempt. Zero and negative are no limit.
	MaxAttempts int
	// MoveAfter is the number of failures in a row at one address after which a slot tries the next address of the list. The slot stays at the
	// address where it succeeds, until SetAddresses spreads the sessions anew. Zero and negative are never.
	MoveAfter int

	// DialTimeout bounds connecting, including TLS, and Open of the handler; default 10 s. If it is off, the client's HandshakeTimeout still
	// bounds connecting.
	DialTimeout time.Duration
	// ResumeTimeout is the time after which the context of Resume is done; default 10 s.
	ResumeTimeout time.Duration
	// DrainTimeout is how long a session may drain before it is aborted; default 10 s. A session drains if its address has left the pool or the
	// pool is shutting down. Meanwhile its leases are released and Drain of its handler runs.
	DrainTimeout time.Duration

	// Logger receives panics, at level Error, and slots that gave up, at level Warn. Nil discards both.
	Logger *slog.Logger

	contradicts bool // DialSession is combined with options that it excludes
}

// withDefaults returns a copy of o with the defaults filled in. In the copy, 0 means off.
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
	if c.Policy == 0 {
		c.Policy = RoundRobin
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
	c.StableAfter = duration(c.StableAfter)
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

// check returns an error if options with defaults are invalid.
func (o *Options) check() error {
	switch {
	case o.contradicts:
		return fmt.Errorf("%w: DialSession excludes Network, Handler, Attach and Dial", ErrOptions)
	case len(o.Addresses) == 0:
		return fmt.Errorf("%w: no address", ErrOptions)
	case o.Sessions < 0:
		return fmt.Errorf("%w: %d sessions", ErrOptions, o.Sessions)
	case o.Base < 0 || o.Cap < o.Base:
		return fmt.Errorf("%w: back-off from %v to %v", ErrOptions, o.Base, o.Cap)
	case o.Policy > ByKey:
		return fmt.Errorf("%w: unknown policy %d", ErrOptions, o.Policy)
	}
	return nil
}

// duration returns the value of a duration option: 10 s if it is zero, 0 if it is negative.
func duration(d time.Duration) time.Duration {
	if d == 0 {
		return 10 * time.Second
	}
	return max(d, 0)
}

// distinct returns a copy of addresses without repetitions, in the order of the first occurrences.
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
