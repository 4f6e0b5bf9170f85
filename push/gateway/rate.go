package gateway

import (
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
)

// The default rates: far more than an application needs that resubscribes to all it has, or publishes in each frame of a game.
const (
	commandsPerSession = 1000
	commandsPerAddress = 100_000
)

// burstSeconds is how many seconds of a rate may come at once after a rest.
const burstSeconds = 10

// rateOf returns the rate of an option, whose zero is the default and whose negative values are no bound.
func rateOf(option, otherwise int) admission.Rate {
	switch {
	case option < 0:
		return admission.Rate{}
	case option == 0:
		option = otherwise
	}
	return admission.Rate{PerSecond: int64(option), Burst: burstSeconds * int64(option)}
}

// rates are the rates of what clients send.
type rates struct{ commands, fromAddress, bytes admission.Rate }

func newRates(o *Options) (r rates) {
	r.commands, r.fromAddress = rateOf(o.CommandsPerSession, commandsPerSession), rateOf(o.CommandsPerAddress, commandsPerAddress)
	if n := o.BytesPerSession; n > 0 {
		r.bytes = admission.Rate{PerSecond: n, Burst: max(burstSeconds*n, int64(o.FrameBytes))}
	}
	return r
}

// caller is an address from which clients are connected.
type caller struct {
	sessions int // guarded by the gateway's mutex

	mu       sync.Mutex
	commands admission.Bucket // guarded by mu
}

// take takes a command from the rate of the address.
func (c *caller) take(r admission.Rate, now int64) bool {
	if r.PerSecond == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands.Take(r, 1, now)
}

var (
	errTooMany = push.ErrTooManyRequests.WithMessage("too many commands per second, try again later")
	errTooFast = push.ErrTooManyRequests.WithMessage("too many bytes per second, try again later")
)

// exceeds counts and logs that the client has exceeded a limit, and reports whether the limit is enforced.
func (c *Client) exceeds(n admission.Name) bool {
	return c.gateway.limits.Exceeded(n, "client", c.addr)
}

// receives counts the bytes of a frame. Commands of a frame that exceeds the rate are refused.
func (c *Client) receives(frame []byte) {
	c.tooFast = !c.bytes.Take(c.gateway.rates.bytes, int64(len(frame)), c.heard.Load()) && c.exceeds(admission.BytesPerSession)
}

// limited returns the error of a command if the rates do not allow the client another one, and counts it then.
func (c *Client) limited() error {
	g, now := c.gateway, c.heard.Load()
	switch {
	case c.tooFast:
		g.counts.limitedBytes.Add(1)
		return errTooFast
	case !c.commands.Take(g.rates.commands, 1, now) && c.exceeds(admission.CommandsPerSession):
		g.counts.limitedSession.Add(1)
		return errTooMany
	case !c.from.take(g.rates.fromAddress, now) && c.exceeds(admission.CommandsPerAddress):
		g.counts.limitedAddress.Add(1)
		return errTooMany
	}
	return nil
}

// spend counts a command as more, by how much it has to look at: it is carried out, and the next ones wait for it.
func (c *Client) spend(commands int) { c.commands.Spend(int64(commands)) }
