package gateway

import (
	"bytes"
	"context"
	"errors"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway/settings"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// command carries out one command and reports whether the connection goes on.
func (c *Client) command(line []byte) bool {
	var cmd protocol.Command
	err := c.kind.encoder.Form.Decode(line, &cmd)
	var refused *push.Error
	switch {
	case err == nil:
	case errors.As(err, &refused) && cmd.ID != 0:
		return c.refuse(cmd.ID, refused)
	default:
		return c.bad(err.Error())
	}
	c.gateway.counts.commands[cmd.Kind].Add(1)
	switch {
	case c.tooFast && cmd.ID == 0: // there is no answer that could say so
		c.Disconnect(push.DisconnectTooManyRequests)
		return false
	case cmd.Kind == protocol.KindNone && cmd.ID == 0:
		return true // a pong, or just a sign of life
	case c.hub.Load() == nil && cmd.Kind != protocol.KindConnect:
		return c.bad("the first command must be connect")
	case cmd.ID == 0 && cmd.Kind != protocol.KindSend:
		return c.bad("a command needs an id")
	case len(line) > c.gateway.options.MessageBytes && c.gateway.limits.Exceeded(admission.MessageBytes, "client", c.addr):
		most := c.gateway.options.MessageBytes
		return c.refuse(cmd.ID, push.ErrLimitExceeded.WithMessage("the command has %d bytes, at most %d are allowed", len(line), most))
	}
	err = c.limited()
	if err == nil {
		err = c.execute(&cmd)
	}
	if err != nil {
		return c.refuse(cmd.ID, err)
	}
	return true
}

const (
	presenceMembers   = 1000 // the most in an answer
	membersPerCommand = 20   // to look at so many takes about as long as a command
)

// bad ends a connection whose client does not speak the protocol.
func (c *Client) bad(why string) bool {
	c.Disconnect(badRequest(why))
	return false
}

func badRequest(why string) push.Disconnect {
	d := push.DisconnectBadRequest
	d.Reason += ": " + why
	return d
}

// execute carries out a command. An error is what the command is answered.
func (c *Client) execute(cmd *protocol.Command) error {
	switch cmd.Kind {
	case protocol.KindPing:
		return c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindPing})
	case protocol.KindUnsubscribe:
		c.hub.Load().Unsubscribe(cmd.Unsubscribe.Channel)
		if e := c.expiry.Load(); e != nil {
			e.Set(cmd.Unsubscribe.Channel, 0)
		}
		return c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindUnsubscribe})
	case protocol.KindSend:
		return push.DisconnectNotAvailable // the node takes no messages, and an answer would have no number
	case protocol.KindRPC:
		return c.rpc(cmd.ID, &cmd.RPC)
	}
	ctx, cancel := context.WithTimeout(c.gateway.ctx, c.gateway.options.CommandTimeout) // these wait for others
	defer cancel()
	switch cmd.Kind {
	case protocol.KindConnect:
		return c.connect(ctx, cmd)
	case protocol.KindSubscribe:
		return c.subscribe(ctx, cmd.ID, &cmd.Subscribe)
	case protocol.KindPublish:
		return c.publish(ctx, cmd.ID, &cmd.Publish)
	case protocol.KindHistory:
		return c.history(ctx, cmd.ID, &cmd.History)
	case protocol.KindPresence:
		return c.presence(ctx, cmd.ID, cmd.Presence.Channel)
	case protocol.KindPresenceStats:
		return c.presenceStats(ctx, cmd.ID, cmd.PresenceStats.Channel)
	case protocol.KindRefresh:
		return c.refresh(ctx, cmd.ID, cmd.Refresh.Token)
	case protocol.KindSubRefresh:
		return c.refreshSubscription(ctx, cmd.ID, &cmd.SubRefresh)
	default:
		return push.ErrMethodNotFound
	}
}

func (c *Client) connect(ctx context.Context, cmd *protocol.Command) error {
	result, err := c.join(ctx, &cmd.Connect)
	if err != nil {
		return err
	}
	if c.held.Load() {
		if err := c.beginSubscriptions(ctx, &cmd.Connect, &result, func(string, push.Position) {}); err != nil {
			return DisconnectFor(err) // a client that has half of its subscriptions is worse than none
		}
	}
	err = c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindConnect, Connect: result})
	c.answered.Store(err == nil)
	if c.held.Swap(false) {
		c.Writable()
	}
	return err
}

// join identifies the client and begins its session in the hub. It returns what the client is told.
func (c *Client) join(ctx context.Context, r *protocol.ConnectRequest) (result protocol.ConnectResult, err error) {
	if c.hub.Load() != nil {
		return result, badRequest("already connected")
	}
	g := c.gateway
	id, err := g.authenticate(ctx, r.Token, c)
	if err != nil {
		return result, err
	}
	asked, err := settings.Parse("connect.data", r.Data)
	if err != nil {
		return result, err
	}
	routes, err := c.place(id, r, asked.Channel)
	if err != nil {
		return result, err
	}
	if !c.countUser(id) {
		return result, push.DisconnectConnectionLimit
	}
	id.Info.Client = newClientID()
	c.held.Store(c.kind.way != OneWay && len(id.Subscriptions) > 0)
	h, err := g.hub.Connect(c.carrier, c.kind.encoder, hub.SessionOptions{
		Info: id.Info, OneWay: c.kind.way == OneWay, Held: c.held.Load(), Bandwidth: asked.BandwidthAsked(),
	})
	if err != nil {
		return result, push.DisconnectShutdown
	}
	c.Request = nil
	c.connected = g.clock()
	c.identity.Store(id)
	c.hub.Store(h)
	if c.released.Load() { // the connection has ended meanwhile, and release has not closed the session
		h.Close()
		return result, push.DisconnectConnectionClosed
	}
	if g.options.Revoked(id) {
		return result, push.DisconnectInvalidToken
	}
	interval := g.options.PingInterval
	if interval > 0 {
		g.agenda.move(c, c.connected+interval.Milliseconds())
	}
	c.expireAt(id.Expires)
	result = protocol.ConnectResult{
		Client:  id.Info.Client,
		Version: g.options.Version,
		Ping:    uint32(max(interval, 0).Seconds()),
		Pong:    c.kind.way != OneWay && interval > 0 && g.options.PongTimeout > 0,
		Node:    g.hub.ID(),
		Data:    asked.Connected(h.Bandwidth(), routes),
	}
	result.Expires, result.TTL = ttl(id.Expires)
	if c.inbox != nil {
		result.Session = c.inbox.secret
	}
	return result, nil
}

func (c *Client) subscribe(ctx context.Context, id uint32, r *protocol.SubscribeRequest) error {
	permission, err := c.permit(ctx, r.Channel, push.ActionSubscribe, r.Token)
	if err != nil {
		return err
	}
	answer := func(result protocol.SubscribeResult, _ push.Position) error {
		c.expireSubscription(r.Channel, permission.Expires)
		c.wants(r.Channel)
		result.Expires, result.TTL = ttl(permission.Expires)
		return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindSubscribe, Subscribe: result})
	}
	with := start{info: permission.Info, joins: permission.joins(r)}
	if r.Type == protocol.SubscriptionMap {
		return subscribeMap(ctx, c.hub.Load(), r, with, answer)
	}
	return subscribe(ctx, c.hub.Load(), r, with, answer)
}

// answering is told the answer to a subscribe request, and where the client is once it has all of it. It is called as
// Session.Subscribe of the hub says.
type answering func(result protocol.SubscribeResult, at push.Position) error

// start is what the server adds to a subscribe request.
type start struct {
	info     []byte         // describes the client in the channel
	budget   channel.Budget // of the answer
	byServer bool           // the client has not asked for it
	joins    bool           // the client gets the join and leave pushes
}

// subscribe begins a subscription for a client of any transport.
func subscribe(ctx context.Context, h *hub.Session, r *protocol.SubscribeRequest, with start, answer answering) error {
	switch {
	case r.Type != protocol.SubscriptionPlain:
		return push.ErrNotAvailable.WithMessage("this type of subscription is not supported")
	case r.Filter != nil:
		return push.ErrNotAvailable.WithMessage("filters are not supported")
	}
	asked, err := settings.Parse("subscribe.data", r.Data)
	if err != nil {
		return err
	}
	ask := asked.Request(r)
	ask.ChanInfo, ask.Budget, ask.ByServer, ask.JoinLeave = with.info, with.budget, with.byServer, with.joins
	if r.Recover {
		ask.Since = &push.Position{Epoch: r.Position.Epoch, Offset: r.Position.Offset}
	}
	return h.Subscribe(ctx, ask, func(s hub.Subscribed) error {
		if r.Recover && !s.Recovered && r.Flag&protocol.SubscribeFlagRejectUnrecovered != 0 {
			return push.ErrUnrecoverablePosition
		}
		result := subscribeResult(r, &s)
		result.Data = asked.Subscribed(&s)
		return answer(result, s.Position)
	})
}

// subscribeResult is the answer on the wire. Its position is the one before its publications, which move it one by one: an
// application may leave the channel before it has seen them all, and must then not come back behind them. That of a map is the one behind
// them, as its SDKs expect: these know by themselves what the application has seen.
func subscribeResult(r *protocol.SubscribeRequest, s *hub.Subscribed) protocol.SubscribeResult {
	out := protocol.SubscribeResult{
		Recoverable:   true,
		Positioned:    true,
		Position:      s.Position,
		Recovered:     s.Recovered,
		WasRecovering: r.Recover,
		Publications:  publicationsOf(s.Deliveries),
		ID:            uint64(s.Number),
		Delta:         s.Delta != push.NoDelta,
		Quoted:        isQuoted(s.Delta),
	}
	switch {
	case len(s.Deliveries) == 0, r.Type == protocol.SubscriptionMap:
	case s.Recovered:
		out.Position.Offset = r.Position.Offset
	default:
		out.Position.Offset = 0
	}
	return out
}

func (c *Client) publish(ctx context.Context, id uint32, r *protocol.PublishRequest) error {
	if err := c.may(ctx, r.Channel, push.ActionPublish); err != nil {
		return err
	}
	p := push.Publication{Key: r.Key, Tags: r.Tags, Info: &c.identity.Load().Info}
	switch {
	case r.Removed && len(r.Data) > 0:
		return push.ErrBadRequest.WithMessage("publish.data and removed exclude each other: leave one out, or send tags with removed")
	case r.Removed:
		p.Op = push.Remove
	case len(r.Data) == 0:
		return push.ErrBadRequest.WithMessage("publish.data is missing")
	default:
		p.Data = bytes.Clone(r.Data)
	}
	if _, err := c.gateway.hub.Publish(ctx, r.Channel, p, ""); err != nil {
		return err
	}
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindPublish})
}

const (
	// historyBytes bounds the publications in one answer to a history command: it has to be kept while the client is slow to read
	// it. The rest is left out. A tag of the last publication says so, and the client asks for what follows it.
	historyBytes = 64 << 10
	// publicationBytes is what each counts for besides its size.
	publicationBytes = 64
	historyMost      = historyBytes / publicationBytes
)

func (c *Client) history(ctx context.Context, id uint32, r *protocol.HistoryRequest) error {
	if err := c.may(ctx, r.Channel, push.ActionHistory); err != nil {
		return err
	}
	ask := hub.HistoryRequest{Limit: int(r.Limit), Reverse: r.Reverse}
	isCut := ask.Limit < 0 || ask.Limit > historyMost
	if isCut {
		ask.Limit = historyMost
	}
	if r.HasSince {
		ask.Since = &r.Since
	}
	found, err := c.gateway.hub.History(ctx, r.Channel, ask)
	if err != nil {
		return err
	}
	out := protocol.HistoryResult{Position: found.Position, Publications: make([]push.Publication, 0, len(found.Entries))}
	room := historyBytes
	isCut = isCut && len(found.Entries) == historyMost
	for _, e := range found.Entries {
		if room -= publicationBytes + e.Size(); room < 0 && len(out.Publications) > 0 {
			isCut = true
			break
		}
		out.Publications = append(out.Publications, e.Publication)
	}
	if isCut {
		last := &out.Publications[len(out.Publications)-1]
		last.Tags = withTag(last.Tags, push.TagMore, "1")
	}
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindHistory, History: out})
}

func (c *Client) presence(ctx context.Context, id uint32, name string) error {
	if err := c.may(ctx, name, push.ActionPresence); err != nil {
		return err
	}
	found, err := c.gateway.hub.Presence(ctx, name)
	if err != nil {
		return err
	}
	c.spend(len(found) / membersPerCommand)
	if len(found) > presenceMembers {
		return push.ErrLimitExceeded.WithMessage("the channel has %d clients, more than the %d of one answer: use presence stats",
			len(found), presenceMembers)
	}
	out := protocol.PresenceResult{Clients: make([]push.ClientInfo, 0, len(found))}
	for _, info := range found {
		out.Clients = append(out.Clients, *info)
	}
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindPresence, Presence: out})
}

func (c *Client) presenceStats(ctx context.Context, id uint32, name string) error {
	if err := c.may(ctx, name, push.ActionPresence); err != nil {
		return err
	}
	clients, users, err := c.gateway.hub.PresenceStats(ctx, name)
	if err != nil {
		return err
	}
	c.spend(clients / membersPerCommand)
	counts := protocol.PresenceStatsResult{Clients: uint32(clients), Users: uint32(users)} //nolint:gosec // counts of connections
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindPresenceStats, PresenceStats: counts})
}
