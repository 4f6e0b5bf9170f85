package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/websocket"
)

// client is one simulated subscriber of a group. The first five fields do not change. The mutex of the shard guards the others.
type client struct {
	shard       *shard
	stalls      bool
	firstStream int      // the client's first index in shard.received
	channels    []uint32 // the numbers of the channels, ascending
	token       string   // of the connect command

	conn           connection // nil if the client has no connection, or has given it up
	state          state
	answersPings   bool            // the server expects an answer to its pings
	resuming       bool            // the client was subscribed before, and rejoins
	rejoinQueued   bool            // the client waits in group.rejoins
	missingAnswers int             // replies that the server still owes to connect and subscribe
	joined         chan error      // receives the outcome of join; nil if no join waits
	endAnnounced   bool            // the server has announced the end of the connection
	serverReason   string          // the reason of the disconnect push, if the server has sent one
	unsubscribed   map[int]bool    // by index in channels: the server has ended the subscription
	positions      []push.Position // by index in channels: of the last publication that came, for recovery; nil if the run needs none
	resubscribedAt int64           // host clock; when the client was last subscribed again
	notResumed     bool            // the server could not recover the missed publications
}

// connection is a connection of a client. A *websocket.Conn is one.
type connection interface {
	// Send sends a frame; only WebSocket needs the opcode.
	Send(op websocket.Opcode, frame []byte) error
	// CloseNow ends the connection without waiting.
	CloseNow()
}

// state is the connection state of a client.
type state uint8

const (
	disconnected state = iota // not connected
	joining                   // connecting, or waiting for the replies to its subscriptions
	subscribed                // to all of its channels
	ended                     // the server or the network has closed the connection, after the client was subscribed
)

// find returns the index of a channel in c.channels.
func (c *client) find(channel uint32) (at int, ok bool) {
	if len(c.channels) == 1 {
		return 0, c.channels[0] == channel
	}
	return slices.BinarySearch(c.channels, channel)
}

// join connects a client and subscribes it to all of its channels. It returns after all answers, or with an error after answerTimeout.
func (g *group) join(ctx context.Context, c *client) error {
	ctx, cancel := context.WithTimeout(ctx, g.answerTimeout)
	defer cancel()
	joined := make(chan error, 1)
	c.shard.mu.Lock()
	c.state, c.joined, c.missingAnswers = joining, joined, 1+len(c.channels)
	commands := g.joinCommands(c)
	c.shard.mu.Unlock()

	conn, err := g.dial(ctx, c, commands)
	if err == nil {
		select {
		case err = <-joined:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.rejoinQueued || c.joined != joined {
		return nil // the client was subscribed, the network has reset it, and rejoinCutClients is responsible for it
	}
	c.joined = nil
	if conn != nil && c.conn == conn && c.state == subscribed {
		return nil
	}
	if err == nil && (c.conn != conn || conn == nil) {
		err = errors.New("the connection ended at once")
	}
	if err != nil {
		if c.state == joining {
			c.state, c.conn = disconnected, nil
		}
		if conn != nil {
			conn.CloseNow()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no answer within %v", g.answerTimeout)
		}
		return err
	}
	return nil
}

// dial connects a client to the next node, or to the gateway that this node names.
func (g *group) dial(ctx context.Context, c *client, commands []*protocol.Command) (connection, error) {
	spec := &g.plan.spec
	address := spec.address(int(g.connects.Add(1)) - 1)
	if spec.Route {
		u, err := clientconn.Route(ctx, g.http, address, c.token, g.plan.channelName(int(c.channels[0])))
		if err != nil {
			return nil, err
		}
		address, _ = spec.addresses(u)
	}
	return g.dialer.dial(ctx, c, address, commands)
}

// joinCommands returns a client's connect and subscribe commands, none under protocol plain. The shard is locked.
func (g *group) joinCommands(c *client) []*protocol.Command {
	if g.plan.spec.Protocol == Plain {
		return nil
	}
	connect := &protocol.Command{ID: 1, Kind: protocol.KindConnect}
	connect.Connect.Token, connect.Connect.Name = c.token, "sluice-bench"
	out := []*protocol.Command{connect}
	for i, channel := range c.channels {
		cmd := &protocol.Command{ID: uint32(i + 2), Kind: protocol.KindSubscribe} //nolint:gosec // a client has few channels
		r := &cmd.Subscribe
		r.Channel = g.plan.channelName(int(channel))
		if g.resumes {
			r.Recoverable, r.Positioned = true, true
			r.Recover = c.resuming && c.positions[i].Epoch != ""
		}
		if r.Recover {
			r.Position = c.positions[i]
		}
		out = append(out, cmd)
	}
	return out
}

// connectionEnded records that a connection of a client has ended.
func (g *group) connectionEnded(conn connection, c *client, err error) {
	reason, byServer := reasoncount.OfEnd(err)
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.conn != conn {
		return // the client has given this connection up
	}
	c.conn = nil
	if c.serverReason != "" {
		reason, byServer = c.serverReason, true
	}
	switch c.state {
	case subscribed:
		if g.rejoins != nil && (!byServer || g.plan.spec.Route) && !g.closing.Load() {
			g.queueRejoinLocked(c)
			return
		}
		c.state, c.endAnnounced = ended, byServer
		g.uncountLocked(c)
		if !g.closing.Load() {
			g.cut.Add(1)
			g.reasons.Add(reason, 1)
		}
	case joining:
		c.state = disconnected
		c.finishJoinLocked(reasoncount.Ended(reason, err))
	case disconnected, ended:
	}
}

// finishJoinLocked reports the outcome to the join that waits for it. Only the first report counts.
func (c *client) finishJoinLocked(err error) {
	if c.joined != nil {
		select {
		case c.joined <- err:
		default: // join has its outcome already
		}
	}
}

// uncountLocked removes a client from the counts of subscribed and reading clients.
func (g *group) uncountLocked(c *client) {
	g.subscribedCount.Add(-1)
	if c.stalls {
		return
	}
	for i, channel := range c.channels {
		if !c.unsubscribed[i] {
			g.readers[channel].Add(-1)
		}
	}
}

// markSubscribedLocked counts a client as subscribed and, unless the client stalls, as a reader of its channels.
func (g *group) markSubscribedLocked(c *client) {
	now := hostclock.Now()
	c.state, c.unsubscribed, c.endAnnounced, c.serverReason = subscribed, nil, false, ""
	g.subscribedCount.Add(1)
	g.lastSubscribedAt.Store(max(g.lastSubscribedAt.Load(), now))
	if !c.stalls {
		for _, channel := range c.channels {
			g.readers[channel].Add(1)
		}
	}
	if c.resuming {
		c.resubscribedAt = now
		if g.plan.spec.Protocol == Plain {
			c.notResumed = true
			g.announceLossLocked(c, 0)
		}
	}
	c.finishJoinLocked(nil)
}

// announceLossLocked records that the server has told a client of possibly missed publications in the channel with index at.
func (g *group) announceLossLocked(c *client, at int) {
	c.shard.received.AnnounceLoss(c.firstStream+at*g.plan.streamsPerChannel, g.plan.streamsPerChannel)
}

// handleFrame handles a frame that has come on a connection of a client: it records the publications and replies in it, and answers a ping. For a
// stalled client it blocks, so that the connection is not read.
func (g *group) handleFrame(conn connection, c *client, frame []byte) {
	if c.stalls && g.stalling.Load() {
		<-g.readAgain // the connection is not read until then
	}
	if g.recordFrame(conn, c, frame) {
		_ = conn.Send(g.op, g.pong) // connectionEnded handles a connection that has ended meanwhile
	}
}

// recordFrame records the publications and replies of a frame. It reports whether the frame holds a ping that is to be answered.
func (g *group) recordFrame(conn connection, c *client, frame []byte) (ping bool) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.conn != conn {
		return false // the client has given this connection up, so its remaining frames do not count
	}
	return g.form.handleLocked(g, c, frame)
}

// answerTimeout returns how long the server may take to subscribe a client, or to answer a publication.
func answerTimeout(s *Spec) time.Duration { return max(s.Patience, 100*time.Millisecond) }
