package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// feedTime bounds how long the clients of a test may take to get what they expect, and feedLine what a client reads at a time.
const (
	feedTime = 3 * time.Minute
	feedLine = 16 << 20
)

// feedClient is a subscriber that keeps books of what it receives. When its blade cuts the connection, or the node goes away, it comes
// back with its positions; when a connection ends in any other way, or anything is received that must not be, it gives up with an error.
type feedClient struct {
	name      string
	address   string // of the node, host:port
	transport feedTransport
	blade     *blade
	hold      <-chan struct{} // not nil: once subscribed, nothing is read until it is closed
	narrow    bool            // the kernel receives little on its own account
	outages   *outages        // of the node; nil: it has none
	http      *http.Client

	book   *ledger // owned by run until ended is closed
	cuts   int     // likewise: how often its blade cut it
	lost   int     // likewise: how often it lost the node
	lastID string  // likewise: the last event id of an SSE client

	subscribed chan struct{} // closed when it is subscribed to all its channels
	complete   chan struct{} // closed when it has got all it expects
	ended      chan struct{} // closed when run has returned
	err        error         // what it gave up with; set before ended is closed
}

// feedTransport connects a client, subscribes and receives until the connection ends, and returns why it did.
type feedTransport func(ctx context.Context, c *feedClient) error

// newFeedClient returns a client that expects something of each of its channels. What is not decided here may be set until it is started.
func newFeedClient(name, address string, transport feedTransport, want map[string]*expectation) *feedClient {
	c := &feedClient{
		name: name, address: address, transport: transport, blade: &blade{}, book: newLedger(want),
		subscribed: make(chan struct{}), complete: make(chan struct{}), ended: make(chan struct{}),
	}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial}}
	return c
}

// run lives through connections until ctx ends.
func (c *feedClient) run(ctx context.Context) {
	defer close(c.ended)
	defer c.http.CloseIdleConnections()
	for {
		outage := c.outages.await(ctx)
		c.blade.sharpen()
		err := c.transport(ctx, c)
		switch wrong := (*violation)(nil); {
		case errors.As(err, &wrong):
			c.err = wrong
			return
		case ctx.Err() != nil:
			return
		case c.blade.fell.Load():
			c.cuts++
			c.blade.stayAway(ctx)
		case c.outages.number() > outage:
			c.lost++
		default:
			c.err = fmt.Errorf("the connection ended, though nobody cut it: %w", err)
			return
		}
	}
}

// noted tells those who wait how far the client has come. It is called whenever something was entered in the book.
func (c *feedClient) noted() {
	for _, mark := range []struct {
		reached bool
		told    chan struct{}
	}{{c.book.unsubscribed == 0, c.subscribed}, {c.book.incomplete == 0, c.complete}} {
		select {
		case <-mark.told:
		default:
			if mark.reached {
				close(mark.told)
			}
		}
	}
}

// wait holds a client that is not to read.
func (c *feedClient) wait(ctx context.Context) {
	if c.hold == nil || c.book.unsubscribed > 0 {
		return
	}
	select {
	case <-c.hold:
	case <-ctx.Done():
	}
}

// wsFeed is one WebSocket connection of a client.
type wsFeed struct {
	client *feedClient
	conn   *websocket.Conn
	asked  map[uint32]string // the channels of the subscribe commands that are under way, by their number
	number uint32            // of the last command
	reply  protocol.Reply    // the one being handled
}

// overWebSocket speaks the client protocol in JSON.
func overWebSocket(ctx context.Context, c *feedClient) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+c.address+"/connection/websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(feedLine)
	f := &wsFeed{client: c, conn: conn, asked: map[uint32]string{}, number: 1}
	first := protocol.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	for name := range c.book.accounts {
		first = append(append(first, '\n'), f.subscribe(name)...)
	}
	if err := conn.Write(ctx, websocket.MessageText, first); err != nil {
		return err
	}
	for {
		c.wait(ctx)
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		for line, rest := protocol.NextLine(frame); line != nil; line, rest = protocol.NextLine(rest) {
			if err := f.handle(ctx, line); err != nil {
				return err
			}
			c.noted()
		}
	}
}

// subscribe returns the command that subscribes to a channel, from where the client is in it.
func (f *wsFeed) subscribe(name string) []byte {
	f.number++
	f.asked[f.number] = name
	at := f.client.book.accounts[name].at
	cmd := protocol.Command{ID: f.number, Kind: protocol.KindSubscribe}
	cmd.Subscribe = protocol.SubscribeRequest{Channel: name, Recover: at.Epoch != "", Position: at}
	return protocol.AppendCommand(nil, &cmd)
}

// handle takes in one line from the server.
func (f *wsFeed) handle(ctx context.Context, line []byte) error {
	r, book := &f.reply, f.client.book
	if err := protocol.DecodeReply(line, r); err != nil {
		return violated("%.200s: %v", line, err)
	}
	switch {
	case r.Error != nil:
		return violated("command %d was refused: %v", r.ID, r.Error)
	case r.IsPing():
		return f.conn.Write(ctx, websocket.MessageText, protocol.AppendCommand(nil, &protocol.Command{}))
	case r.Kind == protocol.KindConnect:
		return nil
	case r.Kind == protocol.KindSubscribe && f.asked[r.ID] != "":
		name := f.asked[r.ID]
		delete(f.asked, r.ID)
		return book.enter(name, &r.Subscribe)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
		return book.publication(r.Push.Channel, &r.Push.Publication)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushUnsubscribe && r.Push.Unsubscribe.Code >= 2500:
		if err := book.leave(r.Push.Channel); err != nil {
			return err
		}
		return f.conn.Write(ctx, websocket.MessageText, f.subscribe(r.Push.Channel))
	}
	return violated("nobody asked for %.200s", line)
}

// overSSE reads server-sent events.
func overSSE(ctx context.Context, c *feedClient) error {
	subs := map[string]struct{}{}
	for name := range c.book.accounts {
		subs[name] = struct{}{}
	}
	connect, err := json.Marshal(map[string]any{"subs": subs})
	if err != nil {
		return err
	}
	address := "http://" + c.address + "/connection/uni_sse?cf_connect=" + url.QueryEscape(string(connect))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if c.lastID != "" {
		req.Header.Set("Last-Event-ID", c.lastID)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(resp.Body)
		return violated("%s: %s", resp.Status, why)
	}
	return c.events(resp.Body)
}

// events takes in events until there are no more. An event counts when it is whole (WHATWG HTML § 9.2.6): so does its id.
func (c *feedClient) events(body io.Reader) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var id, data string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "data":
			data = value
		case "retry": // this client comes again when its test says so
		case "":
			if err := c.event([]byte(data)); err != nil {
				return err
			}
			c.lastID, data = id, ""
			c.noted()
		default:
			return violated("%.200q is no field of an event", line)
		}
	}
}

// event takes in the data of one event.
func (c *feedClient) event(data []byte) error {
	var p protocol.Push
	if err := protocol.DecodePush(data, &p); err != nil {
		return violated("%.200s: %v", data, err)
	}
	switch {
	case p.Kind == protocol.PushPublication:
		return c.book.publication(p.Channel, &p.Publication)
	case p.Kind == protocol.PushConnect:
		for name, result := range p.Connect.Subs {
			if err := c.book.enter(name, &result); err != nil {
				return err
			}
		}
		return nil
	case p.Kind == protocol.PushUnknown && p.Channel == "":
		return nil // the ping
	}
	return violated("nobody asked for %.200s", data)
}

// crowd is the clients of a test. Whatever they give up with fails the test.
type crowd struct {
	t       *testing.T
	clients []*feedClient
	end     context.CancelFunc
	running sync.WaitGroup
}

// startCrowd starts clients and returns when all of them are subscribed.
func startCrowd(t *testing.T, clients ...*feedClient) *crowd {
	t.Helper()
	c := &crowd{t: t, clients: clients}
	ctx, end := context.WithCancel(context.Background())
	c.end = end
	for _, client := range clients {
		c.running.Go(func() { client.run(ctx) })
	}
	t.Cleanup(c.stop)
	c.await("subscribed", func(client *feedClient) <-chan struct{} { return client.subscribed })
	return c
}

// awaitComplete returns when all clients have got what they expect, and ends them.
func (c *crowd) awaitComplete() {
	c.t.Helper()
	c.await("complete", func(client *feedClient) <-chan struct{} { return client.complete })
	c.stop()
}

func (c *crowd) await(what string, mark func(*feedClient) <-chan struct{}) {
	c.t.Helper()
	late := time.NewTimer(feedTime)
	defer late.Stop()
	for _, client := range c.clients {
		select {
		case <-mark(client):
		case <-client.ended:
			c.t.Fatalf("%s gave up: %v\n%v", client.name, client.err, client.book)
		case <-late.C:
			c.stop()
			c.t.Fatalf("%s is not %s (error: %v):\n%v", client.name, what, client.err, client.book)
		}
	}
}

// stop ends all clients and waits for them: their books may be read afterwards.
func (c *crowd) stop() {
	c.end()
	testwait.Return(c.t, c.running.Wait)
}

// cuts returns how often clients of the crowd were cut.
func (c *crowd) cuts() int {
	n := 0
	for _, client := range c.clients {
		n += client.cuts
	}
	return n
}
