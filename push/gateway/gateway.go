package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	clientaddr "github.com/sluice-push/sluice/internal/origin"
	"github.com/sluice-push/sluice/internal/seldom"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/origin"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Paths at which clients connect.
const (
	WebSocketPath = "/connection/websocket"
	SSEPath       = "/connection/uni_sse"
)

// frameSlack is what a message may be larger than its payload on the wire (RFC 6455 §5.2).
const frameSlack = 14

// readBuffer is what is read of one client at a time: commands are small, and what was read is kept while the client does not read the answers.
const readBuffer = 32 << 10

// Action is something that a client wants to do with a channel.
type Action uint8

// The actions.
const (
	Subscribe Action = iota
	Publish
	History
	Presence
)

// Options are a gateway's settings. Zero means the default, negative means off, unless a field says otherwise.
type Options struct {
	// Authenticate says who a client is that connects with a token, or without one. An error refuses the connection: a
	// push.Disconnect as it is, a *push.Error as the answer to the command, anything else as an internal error. The identity of the
	// connection is set afterwards. nil admits everybody as anonymous and passes over tokens.
	Authenticate func(ctx context.Context, token string, r *http.Request) (push.ClientInfo, error)
	// Permit says whether a client may do something with a channel: nil or the error that it is answered. nil permits everything.
	Permit func(c push.ClientInfo, channel string, a Action) error
	// Origins are the web origins whose pages may connect, as in "https://example.org" or "https://*.example.org"; * stands for all, see
	// [origin.New]. Pages of the gateway's own host may always.
	Origins []string

	// MessageBytes bounds a command of a client; default 64 KiB, never off. FrameBytes bounds a message of many commands, which is how a client
	// subscribes again to all it had; default MessageBytes, never less.
	MessageBytes int
	FrameBytes   int
	// SendBuffer bounds what the kernel holds for one client; default 64 KiB; negative leaves it to the system.
	SendBuffer int
	// WriteTimeout is how long a client may take nothing of what is to be written to it before it is cut; default 10 s; negative:
	// for ever.
	WriteTimeout time.Duration
	// Backlog bounds what waits to be written to all clients together: when it is more, clients for whom most waits are disconnected as slow.
	// It is looked at once a second, where so many clients are connected that it could be; default no bound.
	Backlog int64
	// Sessions bounds the clients connected at a time, SessionsPerAddress those from one address; default no bound.
	Sessions           int
	SessionsPerAddress int
	// CommandsPerSession bounds the commands a second of one client, and CommandsPerAddress those of all clients from one address; default 1,000 and
	// 100,000. Ten times as many may come at once after a time of rest. Those beyond are answered push.ErrTooManyRequests, and not carried out.
	CommandsPerSession int
	CommandsPerAddress int

	// PingInterval is how often clients are pinged, in whole seconds; default 25 s. PongTimeout is how long a client may take to
	// answer; default 8 s, negative: clients need not answer.
	PingInterval time.Duration
	PongTimeout  time.Duration
	// ConnectTimeout is how long a client may take until it says who it is; default 10 s, never off.
	ConnectTimeout time.Duration
	// CommandTimeout bounds one command; default 10 s, never off.
	CommandTimeout time.Duration

	linger time.Duration // that of the sessions; set by tests

	// Version is told to clients.
	Version string
	// Logger gets what goes wrong on our side; nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	number := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	duration := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	number(&out.SendBuffer, 64<<10)
	duration(&out.WriteTimeout, 10*time.Second)
	duration(&out.PingInterval, 25*time.Second)
	duration(&out.PongTimeout, 8*time.Second)
	if out.MessageBytes <= 0 {
		out.MessageBytes = 64 << 10
	}
	out.FrameBytes = max(out.FrameBytes, out.MessageBytes)
	if out.ConnectTimeout <= 0 {
		out.ConnectTimeout = 10 * time.Second
	}
	if out.CommandTimeout <= 0 {
		out.CommandTimeout = 10 * time.Second
	}
	if out.PingInterval > 0 {
		out.PingInterval = max(out.PingInterval.Truncate(time.Second), time.Second)
	}
	if out.Permit == nil {
		out.Permit = func(push.ClientInfo, string, Action) error { return nil }
	}
	if out.Authenticate == nil {
		out.Authenticate = func(context.Context, string, *http.Request) (push.ClientInfo, error) { return push.ClientInfo{}, nil }
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Gateway connects clients to a hub. All methods may be called concurrently.
type Gateway struct {
	hub        *hub.Hub
	options    Options
	server     *session.Server
	websockets *wire.Endpoint // what the handshakes of all clients have in common

	began    time.Time
	ctx      context.Context // ends when the gateway closes; bounds commands and streams
	cancel   context.CancelFunc
	arriving sync.WaitGroup // clients that are admitted but not yet among the sessions or the streams
	requests sync.WaitGroup // SSE requests
	running  sync.WaitGroup // the heartbeat
	leaving  sync.WaitGroup // what endSoon began, which begins nothing when closing is set
	buffers  sync.Pool      // *[]byte, in which replies are encoded
	counts   *counters
	pages    *origin.Rules // which may connect

	originWarnings seldom.Warning
	agenda         *agenda // of the heartbeat
	waiting        lookup  // what waits to be written

	mu        sync.Mutex // guards what follows
	closing   bool
	sessions  int
	addresses map[netip.Addr]*caller
	streams   map[*stream]struct{}
}

// New returns a gateway for the hub. The caller serves its Handler and calls Shutdown in the end, before it closes the hub.
func New(h *hub.Hub, o *Options) *Gateway {
	g := &Gateway{
		hub: h, options: o.withDefaults(), began: time.Now(), counts: newCounters(), agenda: newAgenda(),
		addresses: map[netip.Addr]*caller{}, streams: map[*stream]struct{}{},
	}
	g.pages = origin.New(g.options.Origins)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = session.NewServer(nil, &session.Handler{
		Open:     func(s *session.Session) error { s.Value().(*client).opened(s); return nil },
		Message:  func(s *session.Session, frame []byte) { s.Value().(*client).message(frame) },
		Writable: func(s *session.Session) { s.Value().(*client).writable() },
		Drain:    func(s *session.Session) { s.Value().(*client).drain(s) },
		Close:    func(s *session.Session, info *session.CloseInfo) { s.Value().(*client).closed(info) },
	}, &session.Options{
		MaxMessage:   g.options.FrameBytes + frameSlack,
		SendBuffer:   max(g.options.SendBuffer, 0),
		ReadBuffer:   readBuffer,
		WriteTimeout: g.options.WriteTimeout,
		NotSentLowat: 16 << 10,
		Linger:       g.options.linger,
		Logger:       g.options.Logger,
	})
	g.websockets = wire.NewEndpoint(&wire.Options{
		MaxMessage:   g.options.FrameBytes,
		CheckOrigin:  func(r *wire.Request) bool { return g.pages.AllowOrigin(r.Origin, r.Host) },
		Subprotocols: []string{jsonSubprotocol},
	})
	g.running.Go(g.heartbeat)
	return g
}

// Handler returns what serves the client transports, at their paths.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+WebSocketPath, g.serveWebSocket)
	mux.HandleFunc("GET "+SSEPath, g.serveSSE)
	return forPages(g.pages, mux)
}

// AtOnce returns what serves a request to begin a WebSocket connection, nil for every other. It waits for nothing, so it may run where connections are
// accepted.
func (g *Gateway) AtOnce(r *http.Request) http.Handler {
	if r.Method != http.MethodGet || r.URL.Path != WebSocketPath {
		return nil
	}
	return http.HandlerFunc(g.serveWebSocket)
}

// Len returns how many clients are connected.
func (g *Gateway) Len() int {
	n := g.server.Len()
	g.mu.Lock()
	defer g.mu.Unlock()
	return n + len(g.streams)
}

// clock returns the time in milliseconds since the gateway began, at least 1. It does not jump when the system's time is set.
func (g *Gateway) clock() int64 { return 1 + time.Since(g.began).Milliseconds() }

// Admits reports why no new clients are admitted, nil if they are.
func (g *Gateway) Admits() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return errors.New("the node is shutting down")
	}
	return nil
}

// Shutdown asks all clients to connect again, to another node or to this one's successor, and waits until they are gone. When
// ctx ends first the remaining connections and what their commands wait for are cut, and its error is returned. No new clients are
// admitted from the beginning. Calling it again waits for the same. It must not be called from Authenticate or Permit.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	g.arriving.Wait() // short: no client can hold up its own arrival for longer than the answer to its handshake may take
	g.mu.Lock()
	streams := slices.Collect(maps.Keys(g.streams))
	g.mu.Unlock()
	for _, s := range streams {
		s.Disconnect(push.DisconnectShutdown)
	}
	stop := context.AfterFunc(ctx, g.cancel)
	defer stop()
	err := g.server.Shutdown(ctx)
	g.requests.Wait()
	g.leaving.Wait()
	if err != nil || g.ctx.Err() != nil {
		err = ctx.Err() // nil when another call cut them
	}
	g.cancel()
	g.running.Wait()
	if err != nil {
		return fmt.Errorf("gateway: shutdown: %w", err)
	}
	return nil
}

// admit counts a client in, or says why it cannot be. The caller calls arriving.Done when Shutdown can see the client, or it is
// gone, and leave with the same address, once, when the client is gone.
func (g *Gateway) admit(addr netip.Addr) error {
	o := &g.options
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.addresses[addr]
	switch {
	case g.closing:
		g.counts.closing.Add(1)
		return errors.New("the node is shutting down")
	case o.Sessions > 0 && g.sessions >= o.Sessions:
		g.counts.full.Add(1)
		return errors.New("the node has as many clients as it may")
	case from != nil && o.SessionsPerAddress > 0 && from.sessions >= o.SessionsPerAddress:
		g.counts.address.Add(1)
		return fmt.Errorf("%s has as many connections as it may", addr)
	}
	if from == nil {
		from = new(caller)
		g.addresses[addr] = from
	}
	g.sessions++
	from.sessions++
	g.arriving.Add(1)
	return nil
}

func (g *Gateway) leave(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions--
	from := g.addresses[addr]
	if from.sessions--; from.sessions == 0 {
		delete(g.addresses, addr)
	}
}

// callerOf returns the address of a client that is admitted.
func (g *Gateway) callerOf(addr netip.Addr) *caller {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addresses[addr]
}

// addressOf returns what a client is counted by.
func addressOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return clientaddr.Of(addr)
}

// refuse answers a request that cannot become a client, and ends its connection, unless that carries other requests as well.
func refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	http.Error(w, reason, status)
}

// newClientID returns an identity in the form of a UUID.
func newClientID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
