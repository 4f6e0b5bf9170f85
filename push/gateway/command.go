package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// command carries out one command and reports whether the connection goes on.
func (c *client) command(line []byte) bool {
	var cmd protocol.Command
	err := protocol.DecodeCommand(line, &cmd)
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
	case cmd.Kind == protocol.KindNone && cmd.ID == 0:
		return true // a pong, or just a sign of life
	case c.hub.Load() == nil && cmd.Kind != protocol.KindConnect:
		return c.bad("the first command must be connect")
	case cmd.ID == 0 && cmd.Kind != protocol.KindSend:
		return c.bad("a command needs an id")
	case len(line) > c.gateway.options.MessageBytes:
		most := c.gateway.options.MessageBytes
		return c.refuse(cmd.ID, push.ErrLimitExceeded.WithMessage("the command has %d bytes, at most %d are allowed", len(line), most))
	}
	if !c.mayCommand() {
		return c.refuse(cmd.ID, errTooMany)
	}
	if err := c.execute(&cmd); err != nil {
		return c.refuse(cmd.ID, err)
	}
	return true
}

var errTooMany = push.ErrTooManyRequests.WithMessage("too many commands a second, try again later")

// mayCommand reports whether the rates allow the client another command, and counts it if not.
func (c *client) mayCommand() bool {
	g, now := c.gateway, c.heard.Load()
	if !c.commands.take(rateOf(g.options.CommandsPerSession, commandsPerSession), now) {
		g.counts.limitedSession.Add(1)
		return false
	}
	if !c.from.take(rateOf(g.options.CommandsPerAddress, commandsPerAddress), now) {
		g.counts.limitedAddress.Add(1)
		return false
	}
	return true
}

// spend counts a command as more, by how much it has to look at: it is carried out, and the next ones wait for it.
func (c *client) spend(commands int) { c.commands.debt += float64(commands) }

const (
	presenceMembers   = 1000 // the most in an answer
	membersPerCommand = 20   // to look at so many takes about as long as a command
)

// The default rates: far more than an application needs that resubscribes to all it has, or publishes in each frame of a game.
const (
	commandsPerSession = 1000
	commandsPerAddress = 100_000
)

// bad ends a connection whose client does not speak the protocol.
func (c *client) bad(why string) bool {
	c.Disconnect(badRequest(why))
	return false
}

func badRequest(why string) push.Disconnect {
	d := push.DisconnectBadRequest
	d.Reason += ": " + why
	return d
}

// execute carries out a command. An error is what the command is answered.
func (c *client) execute(cmd *protocol.Command) error {
	switch cmd.Kind {
	case protocol.KindPing:
		return c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindPing})
	case protocol.KindUnsubscribe:
		c.hub.Load().Unsubscribe(cmd.Unsubscribe.Channel)
		return c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindUnsubscribe})
	case protocol.KindSend:
		return push.DisconnectNotAvailable // nobody here takes messages, and an answer has no number
	case protocol.KindRPC:
		return c.rpc(cmd.ID, &cmd.RPC)
	case protocol.KindRefresh, protocol.KindSubRefresh:
		return push.ErrNotAvailable
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
	default:
		return push.ErrMethodNotFound
	}
}

func (c *client) connect(ctx context.Context, cmd *protocol.Command) error {
	if c.hub.Load() != nil {
		return badRequest("connected already")
	}
	g := c.gateway
	info, err := g.identify(ctx, cmd.Connect.Token, c.request)
	if err != nil {
		return err
	}
	wish, err := parseWish("connect.data", cmd.Connect.Data)
	if err != nil {
		return err
	}
	h, err := g.hub.Connect(c, jsonFrames{}, hub.SessionOptions{Info: info, Bandwidth: wish.bandwidth()})
	if err != nil {
		return push.DisconnectShutdown
	}
	c.request = nil
	c.connected = g.clock()
	c.hub.Store(h)
	if interval := g.options.PingInterval.Milliseconds(); interval > 0 {
		g.agenda.move(c, c.connected+interval)
	}
	told := g.connected(info, true)
	told.Data = wish.connected(h.Bandwidth())
	return c.reply(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindConnect, Connect: told})
}

// identify says who a client is.
func (g *Gateway) identify(ctx context.Context, token string, r *http.Request) (push.ClientInfo, error) {
	info, err := g.options.Authenticate(ctx, token, r)
	if err != nil {
		return info, err
	}
	info.Client = newClientID()
	for _, raw := range []*[]byte{&info.ConnInfo, &info.ChanInfo} {
		if *raw == nil {
			continue
		}
		if *raw, err = protocol.CompactData(*raw); err != nil {
			return info, fmt.Errorf("the info of user %q is not JSON: %w", info.User, err)
		}
	}
	return info, nil
}

// connected is what a client is told when it has connected.
func (g *Gateway) connected(info push.ClientInfo, pong bool) protocol.ConnectResult {
	return protocol.ConnectResult{
		Client:  info.Client,
		Version: g.options.Version,
		Ping:    uint32(max(g.options.PingInterval, 0).Seconds()),
		Pong:    pong && g.options.PingInterval > 0 && g.options.PongTimeout > 0,
		Node:    g.hub.ID(),
	}
}

func (c *client) subscribe(ctx context.Context, id uint32, r *protocol.SubscribeRequest) error {
	if err := c.gateway.options.Permit(c.info(), r.Channel, Subscribe); err != nil {
		return err
	}
	answer := func(result protocol.SubscribeResult, _ push.Position) error {
		return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindSubscribe, Subscribe: result})
	}
	if r.Type == protocol.SubscriptionMap {
		return subscribeMap(ctx, c.hub.Load(), r, answer)
	}
	return subscribe(ctx, c.hub.Load(), r, channel.Budget{}, answer)
}

// answering is told the answer to a subscribe request, and where the client is once it has all of it. It is called as
// Session.Subscribe of the hub says.
type answering func(result protocol.SubscribeResult, at push.Position) error

// subscribe begins a subscription for a client of any transport. The answer carries at most what the budget says.
func subscribe(ctx context.Context, h *hub.Session, r *protocol.SubscribeRequest, b channel.Budget, answer answering) error {
	switch {
	case r.Type != protocol.SubscriptionPlain:
		return push.ErrNotAvailable.WithMessage("this kind of subscription is not available")
	case r.Filter != nil:
		return push.ErrNotAvailable.WithMessage("filters are not available")
	}
	wish, err := parseWish("subscribe.data", r.Data)
	if err != nil {
		return err
	}
	ask := wish.request(r)
	ask.Budget = b
	if r.Recover {
		ask.Since = &push.Position{Epoch: r.Position.Epoch, Offset: r.Position.Offset}
	}
	return h.Subscribe(ctx, ask, func(s hub.Subscribed) error {
		if r.Recover && !s.Recovered && r.Flag&protocol.SubscribeFlagRejectUnrecovered != 0 {
			return push.ErrUnrecoverablePosition
		}
		result := subscribeResult(r, &s)
		result.Data = wish.subscribed(&s)
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

func (c *client) publish(ctx context.Context, id uint32, r *protocol.PublishRequest) error {
	if err := c.gateway.options.Permit(c.info(), r.Channel, Publish); err != nil {
		return err
	}
	info := c.info()
	p := push.Publication{Key: r.Key, Tags: r.Tags, Info: &info}
	switch {
	case r.Removed && len(r.Data) > 0:
		return push.ErrBadRequest.WithMessage("publish.data is not sent when a row is removed: leave out data or removed, or use tags")
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
	// it. Those that do not fit are left out, which a tag of the last says, and the client asks for what is behind it.
	historyBytes = 64 << 10
	// publicationBytes is what each counts for besides its size.
	publicationBytes = 64
	historyMost      = historyBytes / publicationBytes
)

func (c *client) history(ctx context.Context, id uint32, r *protocol.HistoryRequest) error {
	if err := c.gateway.options.Permit(c.info(), r.Channel, History); err != nil {
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

func (c *client) presence(ctx context.Context, id uint32, name string) error {
	if err := c.gateway.options.Permit(c.info(), name, Presence); err != nil {
		return err
	}
	found, err := c.gateway.hub.Presence(ctx, name)
	if err != nil {
		return err
	}
	c.spend(len(found) / membersPerCommand)
	if len(found) > presenceMembers {
		return push.ErrLimitExceeded.WithMessage("%d clients are in the channel, and an answer has %d at most: ask for presence stats",
			len(found), presenceMembers)
	}
	out := protocol.PresenceResult{Clients: make([]push.ClientInfo, 0, len(found))}
	for _, info := range found {
		out.Clients = append(out.Clients, *info)
	}
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindPresence, Presence: out})
}

func (c *client) presenceStats(ctx context.Context, id uint32, name string) error {
	if err := c.gateway.options.Permit(c.info(), name, Presence); err != nil {
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
