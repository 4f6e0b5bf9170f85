package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/hostclock"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// client is one client of a group. Its fields but the first are guarded by the lock of its tally.
type client struct {
	tally    *tally
	stalls   bool
	entries  int      // where its streams begin in the ledger
	channels []uint32 // in their order

	conn     *websocket.Conn // nil when there is none that counts
	state    state
	pong     bool         // the server wants its pings answered
	resuming bool         // it was subscribed before
	queued   bool         // it was cut by the network, and no usher has taken it yet
	awaited  int          // answers that are missing until it is subscribed
	answered chan error   // where its dialer waits for them; nil for nobody
	told     bool         // the server has said that nothing more comes
	said     string       // what it said
	left     map[int]bool // by place in channels: the server has ended the subscription
	epoch    string       // of its channel, when it resumes
	offset   uint64       // likewise
	backAt   int64        // when it was subscribed again
	fresh    bool         // it could not resume
}

// state is how far a client has come.
type state uint8

const (
	apart      state = iota // not connected
	joining                 // connecting, or waiting to be subscribed
	subscribed              // to all it wants
	ended                   // cut by the server or the network, once it was subscribed
)

// find returns where a channel is among a client's.
func (c *client) find(channel uint32) (at int, ok bool) {
	if len(c.channels) == 1 {
		return 0, c.channels[0] == channel
	}
	return slices.BinarySearch(c.channels, channel)
}

// dialing is the key of the attempt in the context that a client is dialed with.
type dialing struct{}

// attempt is a connection that is being made for a client.
type attempt struct {
	client *client
	from   string // the address on this side, by which the connection is known again
}

// join connects a client and subscribes it to all it wants. It returns when the server has answered all of that.
func (g *group) join(ctx context.Context, c *client) error {
	ctx, cancel := context.WithTimeout(ctx, g.answer)
	defer cancel()
	answered := make(chan error, 1)
	c.tally.mu.Lock()
	c.state, c.answered, c.awaited = joining, answered, 1+len(c.channels)
	hello := g.hello(c)
	c.tally.mu.Unlock()

	dialer := g.reading
	if c.stalls {
		dialer = g.stallers
	}
	a := &attempt{client: c}
	address := g.plan.spec.address(int(g.joins.Add(1)) - 1)
	ws, err := dialer.Dial(context.WithValue(ctx, dialing{}, a), address)
	if err != nil {
		g.dialed.Delete(a.from)
	}
	if err == nil && len(hello) > 0 {
		err = ws.Send(websocket.OpText, hello)
	}
	if err == nil {
		select {
		case err = <-answered:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.queued || c.answered != answered {
		return nil // it was in, the network has cut it, and an usher has it
	}
	c.answered = nil
	if ws != nil && c.conn == ws && c.state == subscribed {
		return nil
	}
	if err == nil && (c.conn != ws || ws == nil) {
		err = errors.New("the connection ended at once")
	}
	if err != nil {
		if c.state == joining {
			c.state, c.conn = apart, nil
		}
		if ws != nil {
			ws.CloseNow()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no answer within %v", g.answer)
		}
		return err
	}
	return nil
}

// hello is what a client says first: connect, and a subscription to each of its channels, all in one message.
func (g *group) hello(c *client) []byte {
	if g.plan.spec.Protocol != Centrifuge {
		return nil
	}
	connect := protocol.Command{ID: 1, Kind: protocol.KindConnect}
	connect.Connect.Token, connect.Connect.Name = g.token, "sluice-bench"
	out := protocol.AppendCommand(nil, &connect)
	for i, channel := range c.channels {
		cmd := protocol.Command{ID: uint32(i + 2), Kind: protocol.KindSubscribe} //nolint:gosec // channels of a client are few
		r := &cmd.Subscribe
		r.Channel = g.plan.channelName(int(channel))
		if c.resuming && c.epoch != "" {
			r.Recover, r.Position = true, push.Position{Epoch: c.epoch, Offset: c.offset}
		}
		if g.resumes {
			r.Recoverable, r.Positioned = true, true
		}
		out = protocol.AppendCommand(append(out, '\n'), &cmd)
	}
	return out
}

// opened is called before anything comes over a new connection.
func (g *group) opened(ws *websocket.Conn) error {
	v, ok := g.dialed.LoadAndDelete(ws.LocalAddr().String())
	if !ok {
		return errors.New("load: nobody dialed this connection")
	}
	c := v.(*attempt).client
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	ws.SetValue(c)
	c.conn = ws
	if g.plan.spec.Protocol == Plain {
		g.subscribedLocked(c) // to everything there is
	}
	return nil
}

// closed is called when a connection has ended.
func (g *group) closed(ws *websocket.Conn, info *session.CloseInfo) {
	c, ok := ws.Value().(*client)
	if !ok {
		return
	}
	reason, told := ending(info)
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.conn != ws {
		return // it was given up from here
	}
	c.conn = nil
	if c.said != "" {
		reason, told = c.said, true
	}
	switch c.state {
	case subscribed:
		if g.away != nil && !told && !g.ending.Load() {
			g.cutLocked(c)
			return
		}
		c.state, c.told = ended, told
		g.leftLocked(c)
		if !g.ending.Load() {
			g.cut.Add(1)
			g.reasons.Add(reason, 1)
		}
	case joining:
		c.state = apart
		c.answerLocked(errors.New(reason))
	case apart, ended:
	}
}

// answerLocked tells the dialer how it went.
func (c *client) answerLocked(err error) {
	if c.answered != nil {
		select {
		case c.answered <- err:
		default: // it has been told
		}
	}
}

// ending says why a connection ended, in words that are the same for all connections to which the same happened, and whether the server
// has said so.
func ending(info *session.CloseInfo) (reason string, told bool) {
	if end, ok := errors.AsType[*websocket.CloseError](info.Err); ok {
		if end.Remote {
			return fmt.Sprintf("closed by the server: %d %s", end.Code, end.Reason), true
		}
		return fmt.Sprintf("the server broke the protocol: %d %s", end.Code, end.Reason), false
	}
	return cause(info.Err), false
}

// cause is an error without what differs from one connection to the next: addresses.
func cause(err error) string {
	var dns *net.DNSError
	switch no, ok := errors.AsType[syscall.Errno](err); {
	case ok:
		return no.Error()
	case errors.As(err, &dns):
		return dns.Error()
	case errors.Is(err, context.Canceled):
		return "given up: the run was ended"
	case err == nil:
		return "unknown"
	}
	return err.Error()
}

// leftLocked takes a client from those that get publications.
func (g *group) leftLocked(c *client) {
	g.here.Add(-1)
	if c.stalls {
		return
	}
	for i, channel := range c.channels {
		if !c.left[i] {
			g.readers[channel].Add(-1)
		}
	}
}

// subscribedLocked adds a client to those that get publications.
func (g *group) subscribedLocked(c *client) {
	now := hostclock.Now()
	c.state, c.left, c.told, c.said = subscribed, nil, false, ""
	g.here.Add(1)
	g.lastJoin.Store(max(g.lastJoin.Load(), now))
	if !c.stalls {
		for _, channel := range c.channels {
			g.readers[channel].Add(1)
		}
	}
	if c.resuming {
		c.backAt = now
		if g.plan.spec.Protocol == Plain {
			c.fresh = true
			g.excuseLocked(c, 0)
		}
	}
	c.answerLocked(nil)
}

// excuseLocked notes that the server has told a client that it may have missed something in one of its channels.
func (g *group) excuseLocked(c *client, at int) {
	c.tally.ledger.excuse(c.entries+at*g.plan.lanes, g.plan.lanes)
}

// message is called with what comes.
func (g *group) message(ws *websocket.Conn, m websocket.Message) {
	c, ok := ws.Value().(*client)
	if !ok {
		return
	}
	if c.stalls && g.stalling.Load() {
		<-g.released // nothing more is read until then
	}
	if g.take(ws, c, m.Data) {
		_ = ws.Send(websocket.OpText, pong) // a connection that has ended meanwhile is told elsewhere
	}
}

// pong is what a client answers to the server's ping, which looks the same.
var pong = []byte("{}")

// take enters a message and reports whether it was a ping that is to be answered.
func (g *group) take(ws *websocket.Conn, c *client, data []byte) (ping bool) {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.conn != ws {
		return false // it was given up from here; what still comes is for nobody
	}
	if g.plan.spec.Protocol == Plain {
		g.deliverLocked(c, anyChannel, data, 0)
		return false
	}
	for line, rest := nextLine(data); len(line) > 0 || len(rest) > 0; line, rest = nextLine(rest) {
		f, ok := g.scan.push(line)
		switch {
		case ok:
			g.deliverLocked(c, f.channel, f.data, f.offset)
		case string(line) == "{}":
			ping = c.pong
		case len(line) > 0:
			g.otherLocked(c, line)
		}
	}
	return ping
}

// answerTime is how long a server may take to let a client in, at most.
func answerTime(s *Spec) time.Duration { return max(s.Patience, 100*time.Millisecond) }
