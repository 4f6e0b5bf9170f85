package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/internal/hostclock"
	"github.com/sluice-push/sluice/push/protocol"
)

// otherLocked enters a line that is not a push of the usual form.
func (g *group) otherLocked(c *client, line []byte) {
	var r protocol.Reply
	if err := protocol.DecodeReply(line, &r); err != nil {
		c.tally.counts.Corrupt++ // it cannot be told what it was to be
		return
	}
	switch {
	case r.IsPing(), r.Kind == protocol.KindPing:
	case r.Kind == protocol.KindPush:
		g.pushLocked(c, &r.Push)
	case c.state != joining: // an answer to what nobody asked
	case r.Error != nil:
		c.answerLocked(fmt.Errorf("%s: %w", asked(&r), r.Error))
	case r.ID == 1:
		c.pong = r.Connect.Pong
		g.answeredLocked(c)
	case int(r.ID)-2 < len(c.channels) && r.Kind == protocol.KindSubscribe:
		g.subscribeReplyLocked(c, int(r.ID)-2, &r.Subscribe)
		g.answeredLocked(c)
	default:
		c.answerLocked(errors.New("the server answered something else than it was asked"))
	}
}

// asked says what a reply is an answer to.
func asked(r *protocol.Reply) string {
	if r.ID == 1 {
		return "connect"
	}
	return "subscribe"
}

// answeredLocked counts an answer that was awaited.
func (g *group) answeredLocked(c *client) {
	c.awaited--
	if c.awaited == 0 {
		g.subscribedLocked(c)
	}
}

// subscribeReplyLocked enters how a subscription began: anew, or where the client was, with what it has missed.
func (g *group) subscribeReplyLocked(c *client, at int, r *protocol.SubscribeResult) {
	if c.resuming {
		c.backAt = hostclock.Now() // what comes with the reply was due before
		if !r.Recovered {
			c.fresh = true
			g.excuseLocked(c, at)
			c.offset = 0
		}
	}
	if g.resumes {
		c.epoch = strings.Clone(r.Position.Epoch)
		if len(r.Publications) == 0 {
			c.offset = r.Position.Offset
		}
	}
	for i := range r.Publications {
		p := &r.Publications[i]
		g.deliverLocked(c, c.channels[at], p.Data, p.Offset)
	}
}

// pushLocked enters a push that has another form than most.
func (g *group) pushLocked(c *client, p *protocol.Push) {
	switch p.Kind {
	case protocol.PushPublication:
		if channel, ok := g.channelNumber(p.Channel); ok {
			g.deliverLocked(c, channel, p.Publication.Data, p.Publication.Offset)
		} else {
			c.tally.counts.Corrupt++ // nobody has subscribed to that
		}
	case protocol.PushUnsubscribe:
		g.unsubscribedLocked(c, p)
	case protocol.PushDisconnect:
		c.said = fmt.Sprintf("disconnected by the server: %d %s", p.Disconnect.Code, p.Disconnect.Reason)
	default: // of no concern here
	}
}

// unsubscribedLocked enters that the server has ended a subscription.
func (g *group) unsubscribedLocked(c *client, p *protocol.Push) {
	channel, ok := g.channelNumber(p.Channel)
	if !ok {
		return
	}
	at, ok := c.find(channel)
	if !ok || c.left[at] || c.state != subscribed {
		return
	}
	if c.left == nil {
		c.left = map[int]bool{}
	}
	c.left[at] = true
	if !c.stalls {
		g.readers[channel].Add(-1)
	}
	g.reasons.Add(fmt.Sprintf("unsubscribed by the server: %d %s", p.Unsubscribe.Code, p.Unsubscribe.Reason), 1)
}

// channelNumber is the number of a channel of this load.
func (g *group) channelNumber(name string) (n uint32, ok bool) {
	digits, ok := strings.CutPrefix(name, g.plan.spec.Prefix)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 10, 32)
	return uint32(v), err == nil && v < uint64(g.plan.channels) //nolint:gosec // 32 bits, and there are fewer
}
