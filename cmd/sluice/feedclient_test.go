package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// feedTime is the time limit for the clients of a test to get what they expect, and feedLine the size of a client's reads.
const (
	feedTime = 3 * time.Minute
	feedLine = 16 << 20
)

// feedClient is a subscriber that checks what it receives. If its cutter cuts the connection, or the node goes away, it reconnects and resumes
// from its positions. If a connection ends in any other way, or the server breaks a rule, the client ends with an error.
type feedClient struct {
	name      string
	address   string // host:port of the node
	transport feedTransport
	cutter    *cutter
	hold      <-chan struct{} // if not nil, a subscribed client reads nothing until it is closed
	narrow    bool            // the kernel's receive buffer is small
	outages   *outages        // of the node; nil: none
	http      *http.Client
	balance   func(ctx context.Context) (net.Conn, error) // if not nil, makes the connections instead of the address
	isPatient bool                                        // when the node says that it cannot serve the client now, the client comes again

	checker *checker // owned by run until ended is closed
	cuts    int      // likewise: how often the cutter has cut the client
	lost    int      // likewise: how often the client has lost the node
	lastID  string   // likewise: the last event id of an SSE client

	subscribed chan struct{} // closed when the client is subscribed to all its channels
	complete   chan struct{} // closed when the client has received everything that it expects
	ended      chan struct{} // closed when run has returned
	err        error         // why the client failed; set before ended is closed
}

// feedTransport connects a client, subscribes, and receives until the connection ends. It returns why the connection ended. feedkinds_test.go has
// one for each way in which clients connect.
type feedTransport func(ctx context.Context, c *feedClient) error

// newFeedClient returns a client with an expectation for each of its channels. Other fields may be set until it is started.
func newFeedClient(name, address string, transport feedTransport, want map[string]*expectation) *feedClient {
	c := &feedClient{
		name: name, address: address, transport: transport, cutter: &cutter{}, checker: newChecker(want),
		subscribed: make(chan struct{}), complete: make(chan struct{}), ended: make(chan struct{}),
	}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial}}
	return c
}

// run connects again and again until ctx ends.
func (c *feedClient) run(ctx context.Context) {
	defer close(c.ended)
	defer c.http.CloseIdleConnections()
	for {
		outage := c.outages.await(ctx)
		c.cutter.prepare()
		err := c.transport(ctx, c)
		switch wrong := (*violation)(nil); {
		case errors.As(err, &wrong):
			c.err = wrong
			return
		case ctx.Err() != nil:
			return
		case c.cutter.wasCut.Load():
			c.cuts++
			c.cutter.stayAway(ctx)
		case c.outages.number() > outage:
			c.lost++
		case c.isPatient && errors.Is(err, errNotNow):
			c.pause(ctx)
		default:
			c.err = fmt.Errorf("the connection ended, though nobody cut it: %w", err)
			return
		}
	}
}

// errNotNow means that a node has refused something, and that another attempt makes sense.
var errNotNow = errors.New("the node cannot serve the client now")

// pause waits for a moment before another attempt.
func (c *feedClient) pause(ctx context.Context) {
	moment := time.NewTimer(50 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-ctx.Done():
	}
}

// noted informs waiters about the client's progress. It is called after every change of the checker.
func (c *feedClient) noted() {
	for _, mark := range []struct {
		reached bool
		told    chan struct{}
	}{{c.checker.unsubscribed == 0, c.subscribed}, {c.checker.incomplete == 0, c.complete}} {
		select {
		case <-mark.told:
		default:
			if mark.reached {
				close(mark.told)
			}
		}
	}
}

// wait blocks while the client must not read.
func (c *feedClient) wait(ctx context.Context) {
	if c.hold == nil || c.checker.unsubscribed > 0 {
		return
	}
	select {
	case <-c.hold:
	case <-ctx.Done():
	}
}

// feed is one connection of a client that sends commands.
type feed struct {
	client *feedClient
	send   func(ctx context.Context, cmd *protocol.Command) error
	asked  map[uint32]string // channels of the pending subscribe commands, by number
	number uint32            // number of the last command
	reply  protocol.Reply    // the one being handled
}

func newFeed(c *feedClient) *feed { return &feed{client: c, asked: map[uint32]string{}} }

// first returns the commands that connect and subscribe to all channels.
func (f *feed) first() []*protocol.Command {
	f.number++
	commands := []*protocol.Command{{ID: f.number, Kind: protocol.KindConnect}}
	for name := range f.client.checker.accounts {
		commands = append(commands, f.subscribe(name))
	}
	return commands
}

// subscribe returns the command that subscribes to a channel from the client's position.
func (f *feed) subscribe(name string) *protocol.Command {
	f.number++
	f.asked[f.number] = name
	return &protocol.Command{ID: f.number, Kind: protocol.KindSubscribe, Subscribe: f.client.checker.request(name)}
}

// handle processes the reply.
func (f *feed) handle(ctx context.Context) error {
	r, checker := &f.reply, f.client.checker
	switch {
	case r.Error != nil && r.Error.Temporary && f.client.isPatient:
		return fmt.Errorf("%w: %w", errNotNow, r.Error)
	case r.Error != nil:
		return violated("command %d was refused: %v", r.ID, r.Error)
	case r.IsPing():
		return f.send(ctx, &protocol.Command{})
	case r.Kind == protocol.KindPush && isMove(&r.Push):
		return nil
	case r.Kind == protocol.KindConnect:
		return nil
	case r.Kind == protocol.KindSubscribe && f.asked[r.ID] != "":
		name := f.asked[r.ID]
		delete(f.asked, r.ID)
		return checker.enter(name, &r.Subscribe)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
		return checker.publication(r.Push.Channel, &r.Push.Publication)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushUnsubscribe && r.Push.Unsubscribe.Code >= 2500:
		if err := checker.leave(r.Push.Channel); err != nil {
			return err
		}
		return f.send(ctx, f.subscribe(r.Push.Channel))
	}
	return violated("nobody asked for reply %+v", *r)
}

// overWebSocket uses the client protocol in JSON, with the WebSocket of another implementation.
func overWebSocket(ctx context.Context, c *feedClient) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+c.address+"/connection/websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(feedLine)
	f := newFeed(c)
	f.send = func(ctx context.Context, cmd *protocol.Command) error {
		return conn.Write(ctx, websocket.MessageText, clientjson.AppendCommand(nil, cmd))
	}
	var first []byte
	for _, cmd := range f.first() {
		first = append(clientjson.AppendCommand(first, cmd), '\n')
	}
	if err := conn.Write(ctx, websocket.MessageText, first); err != nil {
		return err
	}
	return c.messages(ctx, conn, func(line []byte) error {
		if err := clientjson.DecodeReply(line, &f.reply); err != nil {
			return violated("%.200s: %v", line, err)
		}
		return f.handle(ctx)
	})
}

// messages processes the lines of all WebSocket messages until the connection ends.
func (c *feedClient) messages(ctx context.Context, conn *websocket.Conn, handle func(line []byte) error) error {
	for {
		c.wait(ctx)
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		for line, rest := clientjson.NextLine(frame); line != nil; line, rest = clientjson.NextLine(rest) {
			if err := handle(line); err != nil {
				// The library takes the beginning of a message for all of it if the connection ends inside.
				if _, _, ended := conn.Read(ctx); ended != nil {
					return ended
				}
				return err
			}
			c.noted()
		}
	}
}

// overSSE reads server-sent events.
func overSSE(ctx context.Context, c *feedClient) error {
	subs := map[string]struct{}{}
	for name := range c.checker.accounts {
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
		if c.isPatient && resp.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("%w: %s", errNotNow, why)
		}
		return violated("%s: %s", resp.Status, why)
	}
	return c.events(resp.Body)
}

// events processes events until there are no more. Only complete events count, and only their ids (WHATWG HTML § 9.2.6).
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
		case "retry": // the test decides when this client reconnects
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

// event processes the push of one event.
func (c *feedClient) event(data []byte) error {
	var p protocol.Push
	if err := clientjson.DecodePush(data, &p); err != nil {
		return violated("%.200s: %v", data, err)
	}
	return c.push(&p)
}

// push processes a push to a client that only listens.
func (c *feedClient) push(p *protocol.Push) error {
	switch {
	case p.Kind == protocol.PushPublication:
		return c.checker.publication(p.Channel, &p.Publication)
	case p.Kind == protocol.PushConnect:
		for name, result := range p.Connect.Subs {
			if err := c.checker.enter(name, &result); err != nil {
				return err
			}
		}
		return nil
	case p.Kind == protocol.PushUnknown && p.Channel == "", isMove(p):
		return nil // the ping; the routes before the connection ends
	case p.Kind == protocol.PushDisconnect:
		return fmt.Errorf("the server ends the connection: %w", p.Disconnect)
	}
	return violated("nobody asked for push %+v", *p)
}

// isMove reports whether a push says to which other gateways of the cluster the client should go.
func isMove(p *protocol.Push) bool {
	return p.Kind == protocol.PushMessage && bytes.HasPrefix(p.Message, []byte(`{"sluice":{"move":`))
}

// clientGroup is the clients of a test. If one fails, the test fails.
type clientGroup struct {
	t       *testing.T
	clients []*feedClient
	end     context.CancelFunc
	running sync.WaitGroup
}

// startClients starts clients and returns when all are subscribed.
func startClients(t *testing.T, clients ...*feedClient) *clientGroup {
	t.Helper()
	c := &clientGroup{t: t, clients: clients}
	ctx, end := context.WithCancel(context.Background())
	c.end = end
	for _, client := range clients {
		c.running.Go(func() { client.run(ctx) })
	}
	t.Cleanup(c.stop)
	c.await("subscribed", func(client *feedClient) <-chan struct{} { return client.subscribed })
	return c
}

// awaitComplete waits until all clients have received what they expect, and stops them.
func (c *clientGroup) awaitComplete() {
	c.t.Helper()
	c.await("complete", func(client *feedClient) <-chan struct{} { return client.complete })
	c.stop()
}

func (c *clientGroup) await(what string, mark func(*feedClient) <-chan struct{}) {
	c.t.Helper()
	late := time.NewTimer(feedTime)
	defer late.Stop()
	for _, client := range c.clients {
		select {
		case <-mark(client):
		case <-client.ended:
			c.t.Fatalf("%s gave up: %v\n%v", client.name, client.err, client.checker)
		case <-late.C:
			c.stop()
			c.t.Fatalf("%s is not %s (error: %v):\n%v", client.name, what, client.err, client.checker)
		}
	}
}

// stop stops all clients and waits for their end. Their checkers may be read afterwards.
func (c *clientGroup) stop() {
	c.end()
	testwait.Return(c.t, c.running.Wait)
}

// cuts returns how often clients of the group were cut.
func (c *clientGroup) cuts() int {
	n := 0
	for _, client := range c.clients {
		n += client.cuts
	}
	return n
}
