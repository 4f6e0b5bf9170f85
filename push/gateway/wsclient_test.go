package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// wsClient is a WebSocket client that says exactly what the test says, and sees exactly what comes.
type wsClient struct {
	t     testing.TB
	conn  *websocket.Conn
	lines []string // of the last message, that were not looked at
}

// connectWS opens a connection and sends nothing.
func (p *place) connectWS(header http.Header) *wsClient {
	p.t.Helper()
	c, _, err := p.dialWS(header)
	must(p.t, err)
	return c
}

func (p *place) dialWS(header http.Header) (*wsClient, *http.Response, error) {
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) }}
	conn, res, err := d.DialContext(testwait.Context(p.t), "ws://"+p.addr+wsclients.Path, header)
	if err != nil {
		return nil, res, err
	}
	c := &wsClient{t: p.t, conn: conn}
	p.t.Cleanup(func() { _ = conn.Close() })
	must(p.t, conn.SetReadDeadline(c.deadline()))
	must(p.t, conn.SetWriteDeadline(c.deadline()))
	return c, res, nil
}

// client opens a connection and connects as the protocol has it.
func (p *place) client() *wsClient {
	p.t.Helper()
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	if got := c.receive(); !strings.HasPrefix(got, `{"id":1,"connect":{"client":`) {
		p.t.Fatalf("connecting was answered %s", got)
	}
	return c
}

// subscriber is a client with a subscription, which must be answered at once.
func (p *place) subscriber(name string) *wsClient { return p.subscriberWith(name, "null") }

// subscriberWith is subscriber with data.
func (p *place) subscriberWith(name, data string) *wsClient {
	p.t.Helper()
	c := p.client()
	c.send(`{"id":2,"subscribe":{"channel":"` + name + `","data":` + data + `}}`)
	if got := c.receive(); !strings.HasPrefix(got, `{"id":2,"subscribe":{`) {
		p.t.Fatalf("subscribing was answered %s", got)
	}
	return c
}

func (c *wsClient) deadline() time.Time { return time.Now().Add(patience) }

func (c *wsClient) send(text string) {
	c.t.Helper()
	must(c.t, c.conn.WriteMessage(websocket.TextMessage, []byte(text)))
}

// receive returns the next line.
func (c *wsClient) receive() string {
	c.t.Helper()
	line, err := c.line()
	if err != nil {
		c.t.Fatalf("instead of a message: %v", err)
	}
	return line
}

// line returns the next line: what one message holds may as well come in several.
func (c *wsClient) line() (string, error) {
	if len(c.lines) == 0 {
		kind, got, err := c.conn.ReadMessage()
		if err == nil && kind != websocket.TextMessage {
			err = fmt.Errorf("a message of type %d: %q", kind, got)
		}
		if err != nil {
			return "", err
		}
		c.lines = strings.Split(string(got), "\n")
	}
	line := c.lines[0]
	c.lines = c.lines[1:]
	return line, nil
}

// want fails the test unless the next messages are these.
func (c *wsClient) want(messages ...string) {
	c.t.Helper()
	for _, want := range messages {
		if got := c.receive(); got != want {
			c.t.Fatalf("received %s\n    want %s", got, want)
		}
	}
}

// ask sends a command and fails the test unless it is answered so.
func (c *wsClient) ask(command, want string) {
	c.t.Helper()
	c.send(command)
	c.want(want)
}

// wantClose fails the test unless the server closes the connection next, with a code and a reason that contains a text.
func (c *wsClient) wantClose(code int, reason string) {
	c.t.Helper()
	if len(c.lines) > 0 {
		c.t.Fatalf("received %s instead of the end", c.lines)
	}
	_, got, err := c.conn.ReadMessage()
	if err == nil {
		c.t.Fatalf("received %s instead of the end", got)
	}
	_ = c.conn.Close() // the server waits a while for that
	closed := new(websocket.CloseError)
	if !errors.As(err, &closed) || closed.Code != code || !strings.Contains(closed.Text, reason) {
		c.t.Fatalf("ended with %v, want %d with %q", err, code, reason)
	}
}
