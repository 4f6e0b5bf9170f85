package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/websocket"
)

// kind is a way to be a client.
type kind struct {
	name     string
	interval time.Duration // the shortest between two services; 0: none
	stalls   bool          // reads nothing for a while
	weak     bool          // is behind the weak network, and wants the first channel only
}

// client is a WebSocket client of the node. Run is for one goroutine; the other methods may be called by any.
type client struct {
	kind   kind
	form   string // in which it asks for deltas; empty: it does not
	tables map[string]*table
	bytes  atomic.Int64 // that came from the socket

	subscribed chan struct{} // closed when it is subscribed to all its channels for the first time
	ended      chan struct{} // closed when run has returned
	err        error         // why; set before ended is closed

	mu   sync.Mutex
	hold chan struct{} // not nil: nothing is read until it is closed

	// Owned by run.
	conn   *websocket.Conn
	asked  map[uint32]string // channels of the subscribe commands that are under way
	number uint32            // of the last command
	first  int               // channels that it has not been subscribed to yet
	again  int               // how often the server ended a subscription, which was then made anew
	reply  protocol.Reply
}

func newClient(k kind, form string, channels []string, of map[string]*ages) *client {
	if k.weak {
		channels = channels[:1]
	}
	c := &client{
		kind: k, form: form, tables: map[string]*table{}, subscribed: make(chan struct{}), ended: make(chan struct{}),
		asked: map[uint32]string{}, first: len(channels),
	}
	for _, name := range channels {
		c.tables[name] = newTable(of[name])
		c.tables[name].form, _ = push.ParseDelta(form)
	}
	return c
}

// name is what the client is called.
func (c *client) name() string {
	if c.form == "" {
		return c.kind.name
	}
	return c.kind.name + ", " + c.form
}

// stallBuffer is what the kernel takes for a client that does not read, in bytes: what is in there is old when it reads again. With less
// than some segments of loopback, 64 KiB each, it would dribble then.
const stallBuffer = 256 << 10

// run connects, subscribes, and receives until the context ends or something is wrong.
func (c *client) run(ctx context.Context, address string) {
	defer close(c.ended)
	c.err = c.live(ctx, address)
	if ctx.Err() != nil {
		c.err = nil
	}
}

func (c *client) live(ctx context.Context, address string) error {
	var d net.Dialer
	if c.kind.stalls {
		d.Control = socket.Control(socket.Options{Receive: stallBuffer})
	}
	options := websocket.Options{MaxMessage: -1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &counted{conn, &c.bytes}, nil
	}}
	conn, err := websocket.Dial(ctx, "ws://"+address+"/connection/websocket", &options)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	c.conn, c.number = conn, 1
	hello := protocol.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	for name := range c.tables {
		hello = append(append(hello, '\n'), c.subscribe(name)...)
	}
	if err := conn.Send(websocket.OpText, hello); err != nil {
		return err
	}
	for {
		c.wait(ctx)
		m, err := conn.Receive(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		for line, rest := protocol.NextLine(m.Data); line != nil; line, rest = protocol.NextLine(rest) {
			if err := c.handle(line, now); err != nil {
				return err
			}
		}
	}
}

// subscribe returns the command that subscribes to a channel, from where the client is in it.
func (c *client) subscribe(name string) []byte {
	c.number++
	c.asked[c.number] = name
	t := c.tables[name]
	cmd := protocol.Command{ID: c.number, Kind: protocol.KindSubscribe}
	cmd.Subscribe = protocol.SubscribeRequest{Channel: name, Recover: t.position.Epoch != "", Position: t.position, Delta: c.form}
	if c.kind.interval > 0 {
		ms := strconv.FormatInt(c.kind.interval.Milliseconds(), 10)
		cmd.Subscribe.Data = []byte(`{"sluice":{"interval":` + ms + `}}`)
	}
	return protocol.AppendCommand(nil, &cmd)
}

// handle takes in a line from the server.
func (c *client) handle(line []byte, now time.Time) error {
	r := &c.reply
	if err := protocol.DecodeReply(line, r); err != nil {
		return fmt.Errorf("%.200s: %w", line, err)
	}
	switch {
	case r.Error != nil:
		return fmt.Errorf("command %d was refused: %w", r.ID, r.Error)
	case r.IsPing():
		return c.conn.Send(websocket.OpText, protocol.AppendCommand(nil, &protocol.Command{}))
	case r.Kind == protocol.KindConnect:
		return nil
	case r.Kind == protocol.KindSubscribe && c.asked[r.ID] != "":
		return c.enter(r.ID, &r.Subscribe, now)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
		return c.publication(r.Push.Channel, &r.Push.Publication, now)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushUnsubscribe && r.Push.Unsubscribe.Code >= 2500:
		c.again++
		return c.conn.Send(websocket.OpText, c.subscribe(r.Push.Channel))
	}
	return fmt.Errorf("nobody asked for %.200s", line)
}

// enter takes in the answer to a subscribe command.
func (c *client) enter(id uint32, r *protocol.SubscribeResult, now time.Time) error {
	name := c.asked[id]
	delete(c.asked, id)
	t := c.tables[name]
	if c.form != "" && !r.Delta {
		return fmt.Errorf("%s: deltas were not agreed on", name)
	}
	t.enter(r.WasRecovering && r.Recovered, r.Position)
	for i := range r.Publications {
		if err := c.publication(name, &r.Publications[i], now); err != nil {
			return err
		}
	}
	if c.first > 0 {
		if c.first--; c.first == 0 {
			close(c.subscribed)
		}
	}
	return nil
}

func (c *client) publication(name string, p *push.Publication, now time.Time) error {
	t := c.tables[name]
	if t == nil {
		return fmt.Errorf("%q: a publication without a subscription", name)
	}
	if err := t.take(p, now); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stall lets the client read nothing until what is returned is called.
func (c *client) stall() (release func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.hold = nil
		c.mu.Unlock()
		close(hold)
	})
}

// stalled reports whether it does not read now.
func (c *client) stalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hold != nil
}

// wait holds a client that is not to read.
func (c *client) wait(ctx context.Context) {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold == nil {
		return
	}
	select {
	case <-hold:
	case <-ctx.Done():
	}
}

// await waits until something is closed, and says so when the client gave up before, or the context has ended.
func (c *client) await(ctx context.Context, what <-chan struct{}) error {
	var err error
	select {
	case <-what:
		return nil
	case <-c.ended:
		err = fmt.Errorf("gave up: %w", cmp.Or(c.err, errEnded))
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-what: // in time after all
		return nil
	default:
		return err
	}
}

// errEnded is why a client without a reason has gone.
var errEnded = errors.New("the connection ended")

// counted is a connection whose received bytes are counted.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
