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

	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/websocket"
)

// clientKind is a kind of client.
type clientKind struct {
	name     string
	interval time.Duration // the shortest time between two publications of a row; 0: none
	stalls   bool          // stops reading for a while
	weak     bool          // is behind the weak network, and subscribes to the first channel only
}

// client is a WebSocket client of the node. One goroutine calls run; any goroutine may call the other methods.
type client struct {
	kind   clientKind
	form   string // in which it asks for deltas; empty: none
	tables map[string]*table
	bytes  atomic.Int64 // received from the socket

	subscribed chan struct{} // closed when the client is subscribed to all its channels for the first time
	ended      chan struct{} // closed when run has returned
	err        error         // why run has returned; set before ended is closed

	mu   sync.Mutex
	hold chan struct{} // while not nil, the client reads nothing until it is closed

	// Owned by run.
	conn         *websocket.Conn
	asked        map[uint32]string // channels of the pending subscribe commands, by number
	number       uint32            // of the last command
	first        int               // channels that the client has not been subscribed to yet
	resubscribed int               // how often the server ended a subscription and the client subscribed again
	reply        protocol.Reply
}

func newClient(k clientKind, form string, channels []string, of map[string]*rowHistory) *client {
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

// name describes the client.
func (c *client) name() string {
	if c.form == "" {
		return c.kind.name
	}
	return c.kind.name + ", " + c.form
}

// stallBuffer is the receive buffer of a client that stalls, in bytes. Data in the buffer is old when the client reads again, so the buffer is
// small. A buffer of less than several segments of the loopback device, 64 KiB each, would make the client slow afterwards.
const stallBuffer = 256 << 10

// run connects, subscribes, and receives until the context ends or an error occurs.
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
		d.Control = sockopt.Control(sockopt.Options{Receive: stallBuffer})
	}
	options := websocket.Options{MaxMessage: -1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{conn, &c.bytes}, nil
	}}
	conn, err := websocket.Dial(ctx, "ws://"+address+"/connection/websocket", &options)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	c.conn, c.number = conn, 1
	hello := json.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	for name := range c.tables {
		hello = append(append(hello, '\n'), c.subscribe(name)...)
	}
	if err := conn.Send(websocket.OpText, hello); err != nil {
		return err
	}
	for {
		c.waitStalled(ctx)
		m, err := conn.Receive(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		for line, rest := json.NextLine(m.Data); line != nil; line, rest = json.NextLine(rest) {
			if err := c.handle(line, now); err != nil {
				return err
			}
		}
	}
}

// subscribe returns the command that subscribes to a channel from the client's position in it.
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
	return json.AppendCommand(nil, &cmd)
}

// handle processes a line from the server.
func (c *client) handle(line []byte, now time.Time) error {
	r := &c.reply
	if err := json.DecodeReply(line, r); err != nil {
		return fmt.Errorf("%.200s: %w", line, err)
	}
	switch {
	case r.Error != nil:
		return fmt.Errorf("command %d was refused: %w", r.ID, r.Error)
	case r.IsPing():
		return c.conn.Send(websocket.OpText, json.AppendCommand(nil, &protocol.Command{}))
	case r.Kind == protocol.KindConnect:
		return nil
	case r.Kind == protocol.KindSubscribe && c.asked[r.ID] != "":
		return c.handleSubscribed(r.ID, &r.Subscribe, now)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
		return c.publication(r.Push.Channel, &r.Push.Publication, now)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushUnsubscribe && r.Push.Unsubscribe.Code >= 2500:
		c.resubscribed++
		return c.conn.Send(websocket.OpText, c.subscribe(r.Push.Channel))
	}
	return fmt.Errorf("unexpected message %.200s", line)
}

// handleSubscribed processes the answer to a subscribe command.
func (c *client) handleSubscribed(id uint32, r *protocol.SubscribeResult, now time.Time) error {
	name := c.asked[id]
	delete(c.asked, id)
	t := c.tables[name]
	if c.form != "" && !r.Delta {
		return fmt.Errorf("%s: deltas were not agreed on", name)
	}
	t.subscribed(r.WasRecovering && r.Recovered, r.Position)
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
	if err := t.add(p, now); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stall stops the client's reading until release is called.
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

// stalled reports whether the client is not reading at present.
func (c *client) stalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hold != nil
}

// waitStalled blocks while the client is stalled.
func (c *client) waitStalled(ctx context.Context) {
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

// await waits until what is closed. It returns an error if the client ends or the context is done before that.
func (c *client) await(ctx context.Context, what <-chan struct{}) error {
	var err error
	select {
	case <-what:
		return nil
	case <-c.ended:
		err = fmt.Errorf("catching up timed out: %w", cmp.Or(c.err, errEnded))
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-what: // both were ready, and what takes precedence
		return nil
	default:
		return err
	}
}

// errEnded is the error of a client that ended without one.
var errEnded = errors.New("connection ended")

// countingConn is a connection that counts the received bytes.
type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
