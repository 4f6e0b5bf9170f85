package loadtest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/push/protocol"
)

// handleReplyLocked handles a message that the scanner does not parse.
func (g *group) handleReplyLocked(c *client, r *protocol.Reply) {
	switch {
	case r.IsPing(), r.Kind == protocol.KindPing:
	case r.Kind == protocol.KindPush:
		g.pushLocked(c, &r.Push)
	case c.state != joining: // ignored: the client has asked nothing
	case r.Error != nil:
		c.finishJoinLocked(fmt.Errorf("%s: %w", requestName(r), r.Error))
	case r.ID == 1:
		c.answersPings = r.Connect.Pong
		g.countAnswerLocked(c)
	case int(r.ID)-2 < len(c.channels) && r.Kind == protocol.KindSubscribe:
		g.subscribeReplyLocked(c, int(r.ID)-2, &r.Subscribe)
		g.countAnswerLocked(c)
	default:
		c.finishJoinLocked(errors.New("unexpected reply of the server"))
	}
}

// requestName returns the name of the command that a reply answers.
func requestName(r *protocol.Reply) string {
	if r.ID == 1 {
		return "connect"
	}
	return "subscribe"
}

// countAnswerLocked counts a reply to a command of join. After the last one the client is subscribed.
func (g *group) countAnswerLocked(c *client) {
	c.missingAnswers--
	if c.missingAnswers == 0 {
		g.markSubscribedLocked(c)
	}
}

// subscribeReplyLocked handles the reply to a subscribe command for the channel with index at. It records whether the server could recover the
// missed publications, and delivers those in the reply.
func (g *group) subscribeReplyLocked(c *client, at int, r *protocol.SubscribeResult) {
	if c.resuming {
		c.resubscribedAt = hostclock.Now() // before the publications in the reply, which were due earlier
		if !r.Recovered {
			c.notResumed = true
			g.announceLossLocked(c, at)
			if g.resumes {
				c.positions[at].Offset = 0
			}
		}
	}
	if g.resumes {
		p := &c.positions[at]
		if p.Epoch != r.Position.Epoch {
			p.Epoch = strings.Clone(r.Position.Epoch)
		}
		if len(r.Publications) == 0 {
			p.Offset = r.Position.Offset
		}
	}
	for i := range r.Publications {
		p := &r.Publications[i]
		g.deliverLocked(c, c.channels[at], p.Data, p.Offset)
	}
}

// pushLocked handles a push that the scanner does not parse.
func (g *group) pushLocked(c *client, p *protocol.Push) {
	switch p.Kind {
	case protocol.PushPublication:
		if channel, ok := g.channelNumber(p.Channel); ok {
			g.deliverLocked(c, channel, p.Publication.Data, p.Publication.Offset)
		} else {
			c.shard.counts.Corrupt++ // no client has subscribed to that channel
		}
	case protocol.PushUnsubscribe:
		g.unsubscribedLocked(c, p)
	case protocol.PushDisconnect:
		c.serverReason = fmt.Sprintf("disconnected by the server: %d %s", p.Disconnect.Code, p.Disconnect.Reason)
	default: // other pushes do not matter for a load
	}
}

// unsubscribedLocked records that the server has ended a subscription.
func (g *group) unsubscribedLocked(c *client, p *protocol.Push) {
	channel, ok := g.channelNumber(p.Channel)
	if !ok {
		return
	}
	at, ok := c.find(channel)
	if !ok || c.unsubscribed[at] || c.state != subscribed {
		return
	}
	if c.unsubscribed == nil {
		c.unsubscribed = map[int]bool{}
	}
	c.unsubscribed[at] = true
	if !c.stalls {
		g.readers[channel].Add(-1)
	}
	g.reasons.Add(fmt.Sprintf("unsubscribed by the server: %d %s", p.Unsubscribe.Code, p.Unsubscribe.Reason), 1)
}

// channelNumber parses the name of a channel. It reports false if the run has no such channel.
func (g *group) channelNumber(name string) (n uint32, ok bool) {
	digits, ok := strings.CutPrefix(name, g.plan.spec.Prefix)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 10, 32)
	return uint32(v), err == nil && v < uint64(g.plan.channels) //nolint:gosec // 32 bits, and there are fewer
}
