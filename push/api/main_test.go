package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event. It measures nothing: a test that reaches it has failed.
const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a hub with the API in front of it.
type place struct {
	t       testing.TB
	hub     *hub.Hub
	handler *api.Handler
	log     *logs
}

// newPlace makes a hub with streams in the unnamed namespace, tables, and streams with presence. A log line fails the test, unless the test
// expects it.
func newPlace(t testing.TB, o *api.Options) *place {
	t.Helper()
	space := func(name string, mode push.Mode, presence bool) hub.Namespace {
		ns := broker.Namespace{Name: name, Mode: mode, History: push.History{Size: 1000}, Partitions: 1}
		return hub.Namespace{Namespace: ns, Presence: presence}
	}
	b := memory.New(nil)
	h, err := hub.New(t.Context(), b, []hub.Namespace{
		space("", push.Stream, false), space("table", push.Table, false), space("chat", push.Stream, true),
	}, &hub.Options{Name: "here", Version: "v1"})
	must(t, err)
	p := &place{t: t, hub: h, log: &logs{}}
	own := api.Options{}
	if o != nil {
		own = *o
	}
	own.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	p.handler = api.New(h, &own)
	t.Cleanup(func() {
		must(t, h.Close())
		must(t, b.Close())
		p.log.check(t)
	})
	return p
}

// do sends a request and returns the status and the body, without the line end.
func (p *place) do(r *http.Request) (status int, body string) {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r.WithContext(testwait.Context(p.t)))
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		p.t.Errorf("content type %q", got)
	}
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// call calls a method, and fails the test unless the request is understood.
func (p *place) call(method, body string) string {
	p.t.Helper()
	status, got := p.post(method, body)
	if status != http.StatusOK {
		p.t.Fatalf("%s %s: status %d: %s", method, body, status, got)
	}
	return got
}

func (p *place) post(method, body string) (status int, answer string) {
	p.t.Helper()
	return p.do(httptest.NewRequest(http.MethodPost, api.Prefix+method, strings.NewReader(body)))
}

// want fails the test unless a call returns the given answer. EPOCH in the answer stands for the epoch of the channel.
func (p *place) want(method, body, want, name string) {
	p.t.Helper()
	if got := p.call(method, body); got != strings.ReplaceAll(want, "EPOCH", p.epoch(name)) {
		p.t.Errorf("%s %s\n got %s\nwant %s", method, body, got, want)
	}
}

func (p *place) epoch(name string) string {
	p.t.Helper()
	found, err := p.hub.History(testwait.Context(p.t), name, hub.HistoryRequest{})
	must(p.t, err)
	return found.Position.Epoch
}

// client is a session of the hub that records its events.
type client struct {
	*hub.Session
	disconnects chan push.Disconnect
	frames      chan string
}

func (p *place) connect(user, id string, channels ...string) *client {
	p.t.Helper()
	c := &client{disconnects: make(chan push.Disconnect, 1), frames: make(chan string, 100)}
	s, err := p.hub.Connect(c, words{}, hub.SessionOptions{Info: push.ClientInfo{User: user, Client: id, ConnInfo: []byte(`{"name":"Ann"}`)}})
	must(p.t, err)
	c.Session = s
	p.t.Cleanup(s.Close)
	for _, name := range channels {
		must(p.t, s.Subscribe(testwait.Context(p.t), hub.SubscribeRequest{Channel: name}, func(hub.Subscribed) error { return nil }))
	}
	return c
}

// TryWrite implements hub.Carrier.
func (c *client) TryWrite(frames []hub.Frame) int {
	for _, f := range frames {
		c.frames <- string(f.Bytes)
	}
	return len(frames)
}

// Disconnect implements hub.Carrier.
func (c *client) Disconnect(d push.Disconnect) {
	select {
	case c.disconnects <- d:
	default: // the hub's own, on Close
	}
}

// words describes an event.
type words struct{}

func (words) FrameBytes() int { return 0 }

func (words) AppendPublications(dst []byte, to hub.Address, ds []channel.Delivery) []byte {
	return append(append(append(dst, to.Channel...), ' '), ds[0].Entry.Data...)
}

func (words) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return fmt.Appendf(dst, "%s ends with %d: %s", name, u.Code, u.Reason)
}

// logs contains the logged lines. A line that the test does not expect fails the test.
type logs struct {
	mu       sync.Mutex
	text     bytes.Buffer
	expected []string
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// expect declares that lines with a text are allowed, and that there has to be one.
func (l *logs) expect(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = append(l.expected, text)
}

func (l *logs) check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make([]bool, len(l.expected))
next:
	for line := range strings.Lines(l.text.String()) {
		for i, text := range l.expected {
			if strings.Contains(line, text) {
				seen[i] = true
				continue next
			}
		}
		t.Errorf("logged: %s", line)
	}
	for i, text := range l.expected {
		if !seen[i] {
			t.Errorf("not logged: %s", text)
		}
	}
}
