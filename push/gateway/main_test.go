package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen. Nothing is measured by it: a test that needs it has failed.
const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// spaces are the namespaces of the tests: streams without a name, short ones that forget soon, tables, streams with presence, and such that
// are hard on slow clients.
func spaces() []hub.Namespace {
	space := func(name string, mode push.Mode, size int, presence bool) hub.Namespace {
		ns := broker.Namespace{Name: name, Mode: mode, History: push.History{Size: size}, Partitions: 1}
		return hub.Namespace{Namespace: ns, Presence: presence, Deltas: []push.Delta{push.Fossil, push.Merge}}
	}
	ends, cuts := space("ends", push.Stream, 10, false), space("cuts", push.Stream, 10, false)
	ends.Slow, cuts.Slow = push.SlowUnsubscribe, push.SlowDisconnect
	return []hub.Namespace{
		ends, cuts,
		space("", push.Stream, 20_000, false), space("short", push.Stream, 10, false),
		space("table", push.Table, 1000, false), space("chat", push.Stream, 100, true),
	}
}

// place is a node under test: broker, hub and gateway, served by net/http.
type place struct {
	t       testing.TB
	broker  *memory.Broker
	hub     *hub.Hub
	gateway *gateway.Gateway
	server  *http.Server
	addr    string
	log     *logs

	dial      func(ctx context.Context) (net.Conn, error)
	wrap      func(net.Conn) net.Conn // by pipes only: what the server's side of a connection becomes
	protocols *http.Protocols         // with which streams are asked for; nil: HTTP/1.1
	limit     time.Duration           // how long a stream may take
}

// newPlace starts a node that listens on loopback and is shut down at the end of the test.
func newPlace(t testing.TB, o *gateway.Options) *place {
	t.Helper()
	return newPlaceWith(t, o, nil)
}

// newPlaceWith is newPlace with options for the hub.
func newPlaceWith(t testing.TB, o *gateway.Options, ho *hub.Options) *place {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return newPlaceOn(t, ln, o, ho)
}

// newPlaceOn is newPlaceWith a listener.
func newPlaceOn(t testing.TB, ln net.Listener, o *gateway.Options, ho *hub.Options) *place {
	t.Helper()
	p := &place{t: t, broker: memory.New(nil), addr: ln.Addr().String(), log: &logs{}, limit: patience}
	own := gateway.Options{}
	if o != nil {
		own = *o
	}
	if own.Version == "" {
		own.Version = "v1"
	}
	own.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	h, err := hub.New(t.Context(), p.broker, spaces(), ho)
	must(t, err)
	p.hub, p.gateway = h, gateway.New(h, &own, wsclients.New, wsclients.NewOneWay, sseclients.New, sseclients.NewOneWay, httpstream.New, httpstream.NewOneWay)
	p.dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", p.addr) }
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	p.server = &http.Server{Handler: p.gateway.Handler(), ReadHeaderTimeout: patience, Protocols: &protocols}
	conns := testwait.Conns(p.server)
	var serving sync.WaitGroup
	accepting := websocket.NewUpgradeListener(ln, p.gateway.UpgradeHandler, own.Logger) // as nodes do; the example stands behind net/http alone
	serving.Go(func() { _ = p.server.Serve(accepting) })
	t.Cleanup(func() {
		p.shutdown()
		_ = p.server.Close()
		testwait.Return(t, serving.Wait)
		testwait.Return(t, conns)
		must(t, h.Close())
		must(t, p.broker.Close())
		p.log.check(t)
	})
	return p
}

// refuseAll is an Authenticate hook.
func refuseAll(context.Context, string, *http.Request) (gateway.Identity, error) {
	return gateway.Identity{}, push.ErrUnauthorized
}

// shutdown ends the gateway without patience.
func (p *place) shutdown() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.gateway.Shutdown(ctx)
}

// shutdownWithin ends the gateway with some patience.
func (p *place) shutdownWithin(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return p.gateway.Shutdown(ctx)
}

func (p *place) publish(name string, data string) push.Position {
	p.t.Helper()
	return p.put(name, push.Publication{Data: []byte(data)})
}

func (p *place) put(name string, pub push.Publication) push.Position {
	p.t.Helper()
	at, err := p.hub.Publish(testwait.Context(p.t), name, pub, "")
	must(p.t, err)
	return at
}

// epoch returns the epoch of the partition of a channel.
func (p *place) epoch(name string) string {
	p.t.Helper()
	found, err := p.hub.History(testwait.Context(p.t), name, hub.HistoryRequest{})
	must(p.t, err)
	return found.Position.Epoch
}

// logs holds what was logged. What is not expected fails the test.
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

// expect says that lines that contain a text are in order, and that there has to be one.
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
