package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// Identity is who a client is, as [Options.Authenticate] says. It does not change; a refresh replaces it.
type Identity struct {
	// Info is what others may see of the client. The gateway sets Info.Client.
	Info push.ClientInfo
	// Expires is when the connection ends unless the client refreshes it; zero: never.
	Expires time.Time
	// Subscriptions begin by themselves when the client connects, without asking Permit.
	Subscriptions []ServerSubscription
	// Claims are claims of the token, by which Options.Routes may choose gateways for the client. The map must not be changed.
	Claims map[string]string
	// Rights are whatever Permit has to know of the client; the gateway passes them on.
	Rights any
}

// has reports whether a subscription to a channel is among the Subscriptions.
func (id *Identity) has(channel string) bool {
	return slices.ContainsFunc(id.Subscriptions, func(s ServerSubscription) bool { return s.Channel == channel })
}

// ServerSubscription is a subscription that the server begins.
type ServerSubscription struct {
	Channel string
	Info    []byte // JSON that others see of the client in this channel, or nil
	Data    []byte // one JSON value for the client, with the answer, or nil
	// JoinLeave says that the client gets the channel's join and leave pushes.
	JoinLeave bool
}

// PermitRequest is what a client wants to do with a channel.
type PermitRequest struct {
	Channel string
	Action  push.Action
	// Token is the token of the subscription that came with a subscribe command, or with a refresh of the subscription; empty if none did.
	Token string
	// Subscribed reports whether the client is subscribed to the channel.
	Subscribed func() bool
}

// Permission is what [Options.Permit] says of a subscription that it permits. It is the zero Permission for other actions.
type Permission struct {
	// Info is JSON that others see of the client in this channel, or nil.
	Info []byte
	// Expires is when the subscription ends unless the client refreshes it; zero: never.
	Expires time.Time
	// JoinLeave says that the client gets the channel's join and leave pushes if it asks for them, ForceJoinLeave that it gets them in any case.
	JoinLeave, ForceJoinLeave bool
}

// joins reports whether a client gets join and leave pushes with a request.
func (p *Permission) joins(r *protocol.SubscribeRequest) bool {
	return p.ForceJoinLeave || p.JoinLeave && r.JoinLeave
}

// authenticate returns the identity of a client that presents a token, with JSON that fits into frames.
func (g *Gateway) authenticate(ctx context.Context, token string, c *Client) (*Identity, error) {
	id, err := g.options.Authenticate(ctx, token, c.Request)
	if err != nil {
		return nil, err
	}
	for _, raw := range []*[]byte{&id.Info.ConnInfo, &id.Info.ChanInfo} {
		if *raw == nil {
			continue
		}
		if *raw, err = json.CompactData(*raw); err != nil {
			return nil, fmt.Errorf("connection info of user %q is not JSON: %w", id.Info.User, err)
		}
	}
	return &id, nil
}

// EndClients ends the connections of the clients whose identity matches. It returns when they have been told, not when they have ended. A client that
// connects meanwhile may be missed: see [Options.Revoked].
func (g *Gateway) EndClients(d push.Disconnect, matches func(id *Identity) bool) {
	for c := range g.clients() {
		if id := c.identity.Load(); id != nil && matches(id) {
			c.Disconnect(d)
		}
	}
}

// permit asks whether the client may do something with a channel.
func (c *Client) permit(ctx context.Context, channel string, a push.Action, token string) (Permission, error) {
	h := c.hub.Load()
	return c.gateway.options.Permit(ctx, c.identity.Load(), &PermitRequest{
		Channel: channel, Action: a, Token: token, Subscribed: func() bool { return h.Subscribes(channel) },
	})
}

// may is permit for actions other than subscribing.
func (c *Client) may(ctx context.Context, channel string, a push.Action) error {
	_, err := c.permit(ctx, channel, a, "")
	return err
}
