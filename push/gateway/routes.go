package gateway

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/protocol"
)

// Routes says to which gateways of a cluster clients should go. Its methods may be called concurrently, and must not block.
type Routes interface {
	// Route returns the gateways for a client, the best first; none: none are known. This node may be among them unless it is draining.
	// goes says that the client is about to go there, so that it can be counted before the gateway has announced it.
	Route(c *route.Client, goes bool) []route.Route
	// Allows reports whether hard rules allow the client on this node.
	Allows(c *route.Client) bool
}

// mostQueries is how many requests for routes may be answered at a time. They have no session, so Options.Sessions does not bound them.
const mostQueries = 256

// serveRoutes tells a client to which gateways it should go. It identifies the client, so the request counts as a connect.
func (g *Gateway) serveRoutes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !g.Allows(r) {
		g.OriginRefused(r)
		Refuse(w, r, http.StatusForbidden, NotThisOrigin)
		return
	}
	if refused := g.underLimits(g.addressOf(r), g.tryQueryLocked); refused != nil {
		g.addRoutes(refused, r)
		comeAgain(w, r, refused)
		return
	}
	defer g.endQuery()
	q, err := route.ParseQuery(r, g.options.MessageBytes)
	if err != nil {
		g.RequestRefused()
		Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.options.CommandTimeout)
	defer cancel()
	stop := context.AfterFunc(g.ctx, cancel)
	defer stop()
	id, err := g.options.Authenticate(ctx, q.Token, r)
	if err != nil {
		g.ClientRefused()
		if d := new(push.Disconnect); errors.As(err, d) && d.Code == push.DisconnectInvalidToken.Code {
			err = push.ErrUnauthorized.WithMessage("%s", d.Reason)
		}
		w.Header().Set("WWW-Authenticate", "Bearer") // browsers do not ask the user for this scheme
		g.RejectClient(w, r, err)
		return
	}
	routes := g.options.Routes.Route(&route.Client{User: id.Info.User, Addr: g.remoteOf(r), Claims: id.Claims, Channel: q.Channel}, true)
	if len(routes) == 0 {
		ComeAgain(w, r, http.StatusServiceUnavailable, "no gateway is available for this client, try again later")
		return
	}
	route.Write(w, http.StatusOK, "", routes)
}

// tryQueryLocked counts a request for routes, or says why it is not answered now. The caller calls endQuery when it is answered.
func (g *Gateway) tryQueryLocked(addr netip.Addr, refuses func(admission.Name) bool) *NotAdmitted {
	switch {
	case g.closing:
		g.counts.closing.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, shuttingDown)
	case g.queries >= mostQueries:
		g.counts.ramp.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "too many clients ask for gateways, try again later")
	}
	if refused := g.tryConnectLocked(addr, refuses); refused != nil {
		return refused
	}
	g.queries++
	g.running.Add(1)
	return nil
}

func (g *Gateway) endQuery() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queries--
	g.running.Done()
}

// addRoutes adds to a refusal where the client may go instead, of which nothing is known but its address. A client that exceeds the rate of its own
// address is not sent to other nodes.
func (g *Gateway) addRoutes(refused *NotAdmitted, r *http.Request) {
	if g.options.Routes != nil && refused.Status == http.StatusServiceUnavailable {
		refused.Routes = g.options.Routes.Route(&route.Client{Addr: g.remoteOf(r)}, true)
	}
}

// routing is what the gateway knows of a client of a cluster, for the choice of gateways.
type routing struct {
	client    route.Client             // does not change: routing is replaced
	elsewhere atomic.Pointer[[]string] // see Elsewhere
}

// place stores by which properties gateways are chosen for a client, and returns the URLs that the client is told. If hard rules do not allow the client
// on this node, it returns an error.
//
// The rules are asked after the client's token was verified: they may depend on its claims, and before that a rule could refuse a client that it allows.
// A refused client gets no answer to its connect command. SDKs would take an answer as a success and come back at once, and an error of the protocol has
// no room for a list. The client is disconnected with code 3101 instead. SDKs come back with growing delays, and a client that knows the code asks for its
// routes. One-way clients of HTTP get the list at once, with status 503.
func (c *Client) place(id *Identity, r *protocol.ConnectRequest, channel string) ([]string, error) {
	g := c.gateway
	if g.options.Routes == nil {
		return nil, nil
	}
	if channel != "" {
		if err := push.CheckChannel(channel); err != nil {
			return nil, push.ErrBadRequest.WithMessage("connect.data.sluice.channel: %v", err)
		}
	} else if c.kind.way == OneWay && len(r.Subs) > 0 {
		channel = slices.Min(slices.Collect(maps.Keys(r.Subs)))
	}
	known := &routing{client: route.Client{User: id.Info.User, Addr: g.remoteOf(c.Request), Claims: id.Claims, Channel: channel}}
	c.routing.Store(known)
	routes := g.options.Routes.Route(&known.client, false)
	urls := route.URLs(routes)
	if g.options.Routes.Allows(&known.client) {
		return urls, nil
	}
	known.elsewhere.Store(&urls)
	refused := notAdmitted(http.StatusServiceUnavailable, push.DisconnectWrongGateway.Reason)
	refused.Routes, refused.Disconnect = routes, push.DisconnectWrongGateway
	return nil, refused
}

// wants notes the first channel that a client subscribes to, unless the client has said which one it mainly wants. For one client, calls of wants and
// claims do not overlap.
func (c *Client) wants(channel string) {
	if old := c.routing.Load(); old != nil && old.client.Channel == "" {
		now := &routing{client: old.client}
		now.client.Channel = channel
		c.routing.Store(now)
	}
}

// claims notes the claims of a new token of a client.
func (c *Client) claims(claims map[string]string) {
	if old := c.routing.Load(); old != nil && !maps.Equal(old.client.Claims, claims) {
		now := &routing{client: old.client}
		now.client.Claims = claims
		c.routing.Store(now)
	}
}

// Elsewhere returns the URLs of gateways to which a client was sent when its connection was ended; nil: it was not sent elsewhere. A transport with
// trailers calls it when the connection has ended.
func (c *Client) Elsewhere() []string {
	if known := c.routing.Load(); known != nil {
		if urls := known.elsewhere.Load(); urls != nil {
			return *urls
		}
	}
	return nil
}

// Session is a client that is connected to a node of a cluster.
type Session struct {
	// Client is by what gateways are chosen for the client. It is shared, and must not be changed.
	Client *route.Client
	// Since is when the client connected to this node.
	Since time.Time

	client *Client
}

// Sessions visits the clients that are connected, of all transports, in no order. A client may end while it is being visited. Visiting a client copies
// nothing of what is known of it. Without Options.Routes there are no sessions.
func (g *Gateway) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		if g.options.Routes == nil {
			return
		}
		for c := range g.clients() {
			if !c.answered.Load() || c.ended.Load() {
				continue
			}
			since := g.began.Add(time.Duration(c.connected-1) * time.Millisecond)
			if !yield(Session{Client: &c.routing.Load().client, Since: since, client: c}) {
				return
			}
		}
	}
}

// Move tells the client to go to other gateways, by their URLs, the best first, and how long to wait before. Then it ends the connection with
// push.DisconnectMove: SDKs come back, and recover. Move does not wait for the client. It reports whether it has ended the connection: false means that
// the connection had ended before. It may be called concurrently.
func (s Session) Move(urls []string, wait time.Duration) bool {
	return s.client.move(push.DisconnectMove, urls, wait)
}

func (c *Client) move(d push.Disconnect, urls []string, wait time.Duration) bool {
	c.routing.Load().elsewhere.Store(&urls) // a new token may replace it at the same time: then the trailer has no routes, but the message does
	return c.disconnect(d, &protocol.Push{Kind: protocol.PushMessage, Message: route.Move(urls, wait)})
}

// sendAway asks a client to connect to another node, because this one is about to end.
func (c *Client) sendAway() {
	if known := c.routing.Load(); known != nil && c.answered.Load() {
		if urls := route.URLs(c.gateway.options.Routes.Route(&known.client, true)); len(urls) > 0 {
			c.move(push.DisconnectShutdown, urls, 0)
			return
		}
	}
	c.Disconnect(push.DisconnectShutdown)
}
