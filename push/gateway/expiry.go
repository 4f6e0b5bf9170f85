package gateway

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/expiry"
	"github.com/sluice-push/sluice/push/protocol"
)

// endOf returns when something ends that expires, by the gateway's clock and with the grace; 0: never.
func (g *Gateway) endOf(expires time.Time) int64 {
	if expires.IsZero() {
		return 0
	}
	return max(1, g.clock()+time.Until(expires).Milliseconds()+g.options.ExpiryGrace.Milliseconds())
}

// ttl returns what a client is told of when something ends: whether it does, and in how many seconds, at least one.
func ttl(expires time.Time) (does bool, seconds uint32) {
	if expires.IsZero() {
		return false, 0
	}
	left := math.Ceil(time.Until(expires).Seconds())
	return true, uint32(min(max(left, 1), math.MaxInt32))
}

// expires returns the client's expiry, and makes it if there is none yet.
func (c *Client) expires() *expiry.Ends {
	if e := c.expiry.Load(); e != nil {
		return e
	}
	c.expiry.CompareAndSwap(nil, new(expiry.Ends))
	return c.expiry.Load()
}

// expireAt notes when the connection ends.
func (c *Client) expireAt(expires time.Time) {
	if at := c.gateway.endOf(expires); at > 0 || c.expiry.Load() != nil {
		c.expires().SetConnection(at)
		c.examineBy(at)
	}
}

// expireSubscription notes when a subscription ends.
func (c *Client) expireSubscription(channel string, expires time.Time) {
	if at := c.gateway.endOf(expires); at > 0 || c.expiry.Load() != nil {
		c.expires().Set(channel, at)
		c.examineBy(at)
	}
}

// examineBy has the heartbeat examine the client at a time, unless it does so before.
func (c *Client) examineBy(at int64) {
	if at > 0 {
		c.gateway.agenda.advance(c, at)
	}
}

// expire ends what has expired, and reports whether the connection goes on.
func (c *Client) expire(now int64) bool {
	e, h := c.expiry.Load(), c.hub.Load()
	if e == nil || h == nil {
		return true
	}
	connection, subscriptions := e.Due(now)
	if connection {
		c.Disconnect(push.DisconnectExpired)
		return false
	}
	for _, channel := range subscriptions {
		c.gateway.goUnlessClosing(func() { h.End(channel, push.UnsubscribeExpired) }) // it waits while the client does not read
	}
	return true
}

// refresh carries out a refresh command: the connection goes on until the new token ends.
func (c *Client) refresh(ctx context.Context, id uint32, token string) error {
	if token == "" {
		return push.ErrBadRequest.WithMessage("refresh.token is missing")
	}
	old := c.identity.Load()
	found, err := c.gateway.authenticate(ctx, token, c)
	switch {
	case errors.Is(err, push.ErrTokenExpired):
		return push.DisconnectExpired // SDKs take an error here for good, but ask for another token when they connect again
	case err != nil:
		return err
	}
	if found.Info.User != old.Info.User {
		return push.DisconnectInvalidToken // of another user: the application has mixed up its clients
	}
	found.Info.Client = old.Info.Client
	c.identity.Store(found)
	c.claims(found.Claims)
	if c.gateway.options.Revoked(found) {
		return push.DisconnectInvalidToken
	}
	c.expireAt(found.Expires)
	result := protocol.RefreshResult{Client: old.Info.Client, Version: c.gateway.options.Version}
	result.Expires, result.TTL = ttl(found.Expires)
	if err := c.reply(&protocol.Reply{ID: id, Kind: protocol.KindRefresh, Refresh: result}); err != nil {
		return err
	}
	c.endUnpermitted(ctx, old, found)
	return nil
}

// endUnpermitted ends the subscriptions that the old identity of the client permitted, or had, and the new one does not. SDKs subscribe again then,
// and are refused; a client that has a token of the subscription goes on from where it was. If the server had begun the subscription, the client
// connects again.
func (c *Client) endUnpermitted(ctx context.Context, old, now *Identity) {
	h := c.hub.Load()
	for _, name := range h.Subscriptions() {
		lost := !now.has(name)
		if !old.has(name) {
			r := &PermitRequest{Channel: name, Action: push.ActionSubscribe, Subscribed: func() bool { return true }}
			_, before := c.gateway.options.Permit(ctx, old, r)
			_, after := c.gateway.options.Permit(ctx, now, r)
			lost = before == nil && errors.Is(after, push.ErrPermissionDenied)
		}
		if lost {
			c.gateway.goUnlessClosing(func() { h.End(name, push.UnsubscribeInsufficientState) }) // it waits while the client does not read
		}
	}
}

// refreshSubscription carries out a sub_refresh command.
func (c *Client) refreshSubscription(ctx context.Context, id uint32, r *protocol.SubRefreshRequest) error {
	switch {
	case r.Token == "":
		return push.ErrBadRequest.WithMessage("sub_refresh.token is missing")
	case !c.hub.Load().Subscribes(r.Channel):
		return push.ErrPermissionDenied.WithMessage("the client is not subscribed to the channel")
	}
	permission, err := c.permit(ctx, r.Channel, push.ActionSubscribe, r.Token)
	if err != nil {
		return err
	}
	c.expireSubscription(r.Channel, permission.Expires)
	var result protocol.SubRefreshResult
	result.Expires, result.TTL = ttl(permission.Expires)
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindSubRefresh, SubRefresh: result})
}
