package laws_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// client acts randomly. It has one connection at a time, and keeps its state over all of them.
type client struct {
	w    *cluster
	name string
	rng  *rand.Rand // belongs to the client's goroutine
	conn *conn      // likewise; nil if not connected
	held bool       // likewise; the connection has a bandwidth limit

	mu      sync.Mutex // guards the fields below
	id      uint32     // number of the last command
	asked   map[uint32]*protocol.Command
	numbers map[uint64]*feed // feeds by their number on this connection
	feeds   []*feed
	said    string // why the last connection ended
}

func newClient(w *cluster, i int) *client {
	c := &client{w: w, name: fmt.Sprintf("client %d", i)}
	c.rng = rand.New(rand.NewPCG(w.seed, uint64(i))) //nolint:gosec // reproducible, and few
	for _, name := range w.names {
		c.feeds = append(c.feeds, newFeed(name, &w.counters))
	}
	return c
}

// connect opens a connection to one of the nodes. It fails if that node is being stopped.
func (c *client) connect() {
	c.mu.Lock()
	c.asked, c.numbers = map[uint32]*protocol.Command{}, map[uint64]*feed{}
	c.mu.Unlock()
	n := c.w.node(c.rng.IntN(2))
	conn, err := dial(c.w.ctx, n, c.rng.IntN(2)*256<<c.rng.IntN(8), c.receive, c.over)
	if err != nil {
		pause(c.w.ctx, time.Duration(c.rng.IntN(2000))*time.Microsecond)
		return
	}
	c.w.counters.connections.Add(1)
	c.conn, c.held = conn, false
	c.command(&protocol.Command{Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{Data: c.settings(false)}})
}

// settings returns random settings for connect or subscribe.
func (c *client) settings(subscription bool) []byte {
	switch {
	case c.rng.IntN(2) == 0:
		return nil
	case subscription:
		return fmt.Appendf(nil, `{"sluice":{"interval":%d,"lost":%t}}`, c.rng.IntN(30), c.rng.IntN(2) == 0)
	default:
		c.held = true
		return fmt.Appendf(nil, `{"sluice":{"bandwidth":%d}}`, c.rng.IntN(2)*(5_000+c.rng.IntN(200_000)))
	}
}

// command sends a command.
func (c *client) command(cmd *protocol.Command) {
	c.mu.Lock()
	c.id++
	cmd.ID = c.id
	c.asked[cmd.ID] = cmd
	c.mu.Unlock()
	if !c.conn.send(cmd) {
		c.cut() // the client has been stalled for very long
	}
}

// cut closes the connection.
func (c *client) cut() {
	c.conn.cut()
	c.conn = nil
	c.w.counters.cuts.Add(1)
	c.lost("cut")
}

// lost ends all subscriptions after the connection has ended.
func (c *client) lost(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.feeds {
		f.over(why)
	}
}

// over records why a connection ended.
func (c *client) over(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = err.Error()
}

// subscribe subscribes to a channel unless the client is subscribed or has sent the command.
func (c *client) subscribe(f *feed) {
	c.mu.Lock()
	if f.live || f.asked {
		c.mu.Unlock()
		return
	}
	r := protocol.SubscribeRequest{Channel: f.name, Data: c.settings(true)}
	if f.pos.Epoch != "" {
		r.Recover, r.Position = true, f.pos
	}
	f.form = push.Delta(c.rng.IntN(1 + push.Deltas)) //nolint:gosec // a few
	if f.form != push.NoDelta {
		r.Delta = f.form.String()
	}
	if c.rng.IntN(2) == 0 {
		r.Flag = protocol.SubscribeFlagCompaction
	}
	f.asked = true
	f.note("subscribe: recover %t at %v, delta %q", r.Recover, r.Position, r.Delta)
	c.mu.Unlock()
	c.command(&protocol.Command{Kind: protocol.KindSubscribe, Subscribe: r})
}

// receive handles a line from the node.
func (c *client) receive(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r protocol.Reply
	if err := json.DecodeReply(line, &r); err != nil {
		c.feeds[0].fail("line %q is not of the protocol: %v", line, err)
		return
	}
	if r.Kind == protocol.KindPush {
		c.push(&r.Push)
		return
	}
	cmd := c.asked[r.ID]
	delete(c.asked, r.ID)
	switch {
	case r.ID == 0:
	case cmd == nil:
		c.feeds[0].fail("nobody asked for %q", line)
	case cmd.Kind == protocol.KindSubscribe:
		c.subscribed(cmd, &r)
	case cmd.Kind == protocol.KindUnsubscribe:
		// Otherwise the node had ended the subscription, and the client has sent another subscribe command.
		if f := c.feed(cmd.Unsubscribe.Channel); !f.asked {
			f.over("unsubscribed")
		}
	case r.Error != nil && !strings.Contains(r.Error.Message, "not subscribed"):
		c.feeds[0].fail("%v is answered %v", cmd.Kind, r.Error)
	}
}

// subscribed handles the answer to a subscribe command.
func (c *client) subscribed(cmd *protocol.Command, r *protocol.Reply) {
	f := c.feed(cmd.Subscribe.Channel)
	if r.Error != nil {
		f.over(r.Error.Message)
		if !r.Error.Temporary {
			f.fail("subscribing is answered %v", r.Error)
		}
		return
	}
	f.answered(&r.Subscribe, &cmd.Subscribe)
	if r.Subscribe.ID != 0 {
		c.numbers[r.Subscribe.ID] = f
	}
}

// push handles a push message of the node.
func (c *client) push(p *protocol.Push) {
	f := c.numbers[p.ID]
	if p.Channel != "" {
		f = c.feed(p.Channel)
	}
	switch {
	case f == nil:
		c.feeds[0].fail("a push of number %d came", p.ID)
	case p.Kind == protocol.PushPublication:
		f.add(&p.Publication)
	case p.Kind == protocol.PushUnsubscribe:
		f.counters.ended.Add(1)
		f.over(p.Unsubscribe.Reason)
		if p.Unsubscribe.Code < 2500 {
			f.fail("the subscription ended with %v", p.Unsubscribe)
		}
	default:
		f.fail("a push of kind %v came", p.Kind)
	}
}

func (c *client) feed(name string) *feed {
	for _, f := range c.feeds {
		if f.name == name {
			return f
		}
	}
	panic("no such channel: " + name)
}

// live does random things until done is closed.
func (c *client) act(done <-chan struct{}) {
	for !isClosed(done) {
		if c.conn != nil && c.conn.isOver() {
			c.conn.cut()
			c.conn = nil
			c.lost("the connection ended")
		}
		if c.conn == nil {
			c.connect()
			continue
		}
		f := c.feeds[c.rng.IntN(len(c.feeds))]
		switch n := c.rng.IntN(40); {
		case n < 16:
			c.subscribe(f)
		case n < 17:
			c.command(&protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: f.name}})
		case n < 20:
			c.w.counters.stalls.Add(1)
			c.conn.gate.set(true, 0)
			if c.rng.IntN(4) == 0 { // long enough for the gateway to react
				pause(c.w.ctx, time.Duration(c.rng.IntN(200))*time.Millisecond)
			}
		case n < 26:
			c.conn.gate.set(false, c.rng.IntN(2)*(1+c.rng.IntN(300)))
		case n < 27:
			c.cut()
		case n < 29:
			c.pace(f)
		default:
			pause(c.w.ctx, time.Duration(c.rng.IntN(3000))*time.Microsecond)
		}
	}
}

// pace changes the interval of a channel or the bandwidth of the client.
func (c *client) pace(f *feed) {
	if n := c.rng.IntN(40); c.rng.IntN(2) == 0 {
		c.rate(fmt.Appendf(nil, `{"channel":%q,"interval":%d}`, f.name, n))
	} else {
		c.held = true
		c.rate(fmt.Appendf(nil, `{"bandwidth":%d}`, n*5_000))
	}
}

func (c *client) rate(data []byte) {
	c.command(&protocol.Command{Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: "sluice.pace", Data: data}})
}

// release removes the bandwidth limit. Without a limit it sends nothing, because the command would also wake a session whose wake-up the node
// has lost, and so hide the bug.
func (c *client) release() {
	if c.held {
		c.held = false
		c.rate([]byte(`{"bandwidth":0}`))
	}
}

// catchUp lets the client receive everything, and waits until it has all publications.
func (c *client) catchUp() {
	deadline := time.Now().Add(*patience)
	for {
		if c.conn != nil && c.conn.isOver() {
			c.conn.cut()
			c.conn = nil
			c.lost("the connection ended")
		}
		if c.conn == nil {
			if time.Now().After(deadline) {
				c.w.t.Errorf("%s cannot connect", c.name)
				return
			}
			c.connect()
			continue
		}
		c.conn.gate.set(false, 0)
		if c.release(); c.conn == nil {
			continue
		}
		var missing error
		for _, f := range c.feeds {
			c.subscribe(f)
			c.mu.Lock()
			if err := f.missing(c.w.published, c.w.epochs[f.name]); err != nil {
				missing = fmt.Errorf("%s: %s: %w\nthe last of its events:\n%s", c.name, f.name, err, strings.Join(f.events, "\n"))
			}
			broken := f.broken
			c.mu.Unlock()
			if broken != nil {
				c.w.t.Error(missing)
				return
			}
		}
		switch {
		case missing == nil:
			c.checkQuiescent()
			return
		case time.Now().After(deadline):
			c.w.t.Errorf("it did not come to rest: %v", missing)
			return
		}
		pause(c.w.ctx, time.Millisecond)
	}
}

// checkQuiescent checks what was received since the last quiescent point.
func (c *client) checkQuiescent() {
	c.w.nudging.RLock() // while the lock is held, every received publication is also in the record of published ones
	defer c.w.nudging.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.feeds {
		if err := f.check(c.w.published); err != nil {
			c.w.t.Errorf("%s: %v\nthe last of its events:\n%s", c.name, err, strings.Join(f.events, "\n"))
		}
	}
}

// end closes the client's connection.
func (c *client) end() {
	if c.conn != nil {
		c.conn.cut()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
