package gateway_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
)

// sseClient reads a stream of events.
type sseClient struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
	ids    []string // of all events so far that had one
	retry  string   // when to connect again, in milliseconds
}

// event is what a browser makes of one.
type event struct {
	id    string
	hasID bool
	data  string
}

// stream opens a stream, which must be accepted. connect is the value of cf_connect, lastID that of the header.
func (p *place) stream(connect, lastID string, header ...http.Header) *sseClient {
	p.t.Helper()
	c, res := p.tryStream(connect, lastID, header...)
	if c == nil {
		p.t.Fatalf("a stream is refused: %d", res.StatusCode)
	}
	return c
}

// tryStream returns nil when the stream is refused. A lastID that begins with a question mark is sent in the query.
func (p *place) tryStream(connect, lastID string, header ...http.Header) (*sseClient, *http.Response) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), p.limit)
	u := "http://" + p.addr + sseclients.OneWayPath
	if connect != "" {
		u += "?cf_connect=" + url.QueryEscape(connect)
	}
	if id, inQuery := strings.CutPrefix(lastID, "?"); inQuery {
		u, lastID = u+"&lastEventId="+url.QueryEscape(id), ""
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	must(p.t, err)
	for _, h := range header {
		r.Header = h.Clone()
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		Protocols:   p.protocols,
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}
	res, err := transport.RoundTrip(r)
	must(p.t, err)
	c := &sseClient{t: p.t, res: res, lines: bufio.NewScanner(res.Body)}
	c.cancel = func() {
		cancel()
		_ = res.Body.Close()
		transport.CloseIdleConnections()
	}
	p.t.Cleanup(c.cancel)
	if res.StatusCode != http.StatusOK {
		c.cancel()
		return nil, res
	}
	c.lines.Buffer(nil, 1<<20)
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		p.t.Fatalf("content type %q", got)
	}
	return c, res
}

func (c *sseClient) close() { c.cancel() }

// read returns the next event; false when the stream has ended.
func (c *sseClient) read() (e event, ok bool) {
	c.t.Helper()
	for c.lines.Scan() {
		line := c.lines.Text()
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "":
			if line == "" && ok {
				return e, true
			}
		case "id":
			e.id, e.hasID = strings.TrimPrefix(value, " "), true
			c.ids = append(c.ids, e.id)
		case "retry":
			c.retry = strings.TrimPrefix(value, " ")
		case "data":
			e.data, ok = strings.TrimPrefix(value, " "), true
		default:
			c.t.Fatalf("a line %q", line)
		}
	}
	return event{}, false
}

// next returns the next event, which must come.
func (c *sseClient) next() event {
	c.t.Helper()
	e, ok := c.read()
	if !ok {
		c.t.Fatalf("the stream has ended: %v", c.lines.Err())
	}
	return e
}

// want fails the test unless the next events have these data.
func (c *sseClient) want(data ...string) {
	c.t.Helper()
	for _, want := range data {
		if got := c.next(); got.data != want {
			c.t.Fatalf("got %s\nwant %s", got.data, want)
		}
	}
}

// wantEnd fails the test unless the stream is over.
func (c *sseClient) wantEnd() {
	c.t.Helper()
	if e, ok := c.read(); ok {
		c.t.Fatalf("got %s instead of the end", e.data)
	}
}
