package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/forwarded"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/origin"
)

// Options are a gateway's settings. Zero means the default, negative means off, unless a field says otherwise.
type Options struct {
	// Authenticate says who a client is that connects with a token, or without one. An error refuses the connection: a
	// push.Disconnect as it is, a *push.Error as the answer to the command, anything else as an internal error. The identity of the
	// connection is set afterwards. nil admits everybody as anonymous and passes over tokens.
	//
	// It is called again when a connected client refreshes its connection, then without a request. The user must be the same.
	Authenticate func(ctx context.Context, token string, r *http.Request) (Identity, error)
	// Permit says whether a client may do something with a channel. Its error is the answer to the command; a push.Disconnect ends the connection.
	// nil permits everything.
	Permit func(ctx context.Context, id *Identity, r *PermitRequest) (Permission, error)
	// Revoked says whether an identity was taken back since Authenticate returned it. It is asked when [Gateway.EndClients] can find the client, so
	// that none slips through between the two. nil: none is.
	Revoked func(id *Identity) bool
	// Routes says to which gateways of a cluster clients should go; nil: the node is in no cluster, and clients are told of no others.
	Routes Routes
	// ExpiryGrace is for how long a connection or a subscription that has expired goes on, so that a refresh may still come; default 25 s, negative:
	// not at all.
	ExpiryGrace time.Duration
	// Origins are the web origins whose pages may connect, as in "https://example.org" or "https://*.example.org"; * stands for all, see
	// [origin.New]. Pages of the gateway's own host may always.
	Origins []string

	// Proxies are trusted to say from which address a client comes, which the limits by address count. The zero value trusts none.
	Proxies forwarded.Proxies

	// MessageBytes bounds a command of a client; default 64 KiB, never off. FrameBytes bounds a message of many commands, which is how a client
	// subscribes again to all it had; default MessageBytes, never less.
	MessageBytes int
	FrameBytes   int
	// Compression compresses what is sent to clients that ask for that, in the way of their transport, and lets clients compress what they send;
	// FrameBytes bounds what that inflates to.
	Compression bool
	// SendBuffer bounds what the kernel holds for one client; default 64 KiB; negative leaves it to the system.
	SendBuffer int
	// WriteTimeout is how long a client may take nothing of what is to be written to it before it is cut; default 10 s; negative:
	// for ever.
	WriteTimeout time.Duration
	// Backlog bounds what waits to be written to all clients together: when it is more, clients for whom most waits are disconnected as slow.
	// It is looked at once a second, where so many clients are connected that it could be; default no bound.
	Backlog int64
	// Sessions bounds the clients connected at a time, SessionsPerAddress those from one address, and SessionsPerUser those of one user, if it has a
	// name; default no bound. Clients beyond the first two are not admitted, see [NotAdmitted]; those of the third are ended with
	// push.DisconnectConnectionLimit when they connect.
	Sessions           int
	SessionsPerAddress int
	SessionsPerUser    int
	// Connects bounds how many clients are admitted in a second, and ConnectsPerAddress how many from one address; default no bound.
	Connects           int
	ConnectsPerAddress int
	// CommandsPerSession bounds the commands a second of one client, and CommandsPerAddress those of all clients from one address; default 1,000 and
	// 100,000. Ten times as many may come at once after a time of rest. Those beyond are answered push.ErrTooManyRequests, and not carried out.
	CommandsPerSession int
	CommandsPerAddress int
	// BytesPerSession bounds the bytes a second of one client's commands; default no bound. After a rest, ten times as many are allowed at once, and
	// at least FrameBytes. Commands beyond it are answered push.ErrTooManyRequests; what has no answer then ends the connection with
	// push.DisconnectTooManyRequests.
	BytesPerSession int64
	// Limits counts where the limits are exceeded, and says which are enforced; nil: all are.
	Limits *admission.Limits

	// PingInterval is how often clients are pinged, in whole seconds; default 25 s. PongTimeout is how long a client may take to
	// answer; default 8 s, negative: clients need not answer.
	PingInterval time.Duration
	PongTimeout  time.Duration
	// ConnectTimeout is how long a client may take until it says who it is; default 10 s, never off.
	ConnectTimeout time.Duration
	// CommandTimeout bounds one command; default 10 s, never off.
	CommandTimeout time.Duration

	// Linger is how long a client may take to end its connection when it was told why; default 5 s, see session.Options.
	Linger time.Duration

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
	duration(&out.ExpiryGrace, 25*time.Second)
	out.ExpiryGrace = max(out.ExpiryGrace, 0)
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
		out.Permit = func(context.Context, *Identity, *PermitRequest) (Permission, error) { return Permission{}, nil }
	}
	if out.Authenticate == nil {
		out.Authenticate = func(context.Context, string, *http.Request) (Identity, error) { return Identity{}, nil }
	}
	if out.Revoked == nil {
		out.Revoked = func(*Identity) bool { return false }
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.Limits == nil {
		out.Limits = admission.NewLimits(out.Logger)
	}
	return out
}

// Gateway connects clients to a hub. All methods may be called concurrently.
type Gateway struct {
	hub        *hub.Hub
	options    Options
	transports []Transport

	began    time.Time
	ctx      context.Context // ends when the gateway closes; bounds commands and streams
	cancel   context.CancelFunc
	arriving sync.WaitGroup // clients that are admitted but that their transport does not have yet
	running  sync.WaitGroup // the heartbeat, and requests for routes
	leaving  sync.WaitGroup // what goUnlessClosing began
	buffers  sync.Pool      // *[]byte, in which replies are encoded
	counts   *counters
	pages    *origin.Rules // which may connect

	originWarnings logsample.Warning
	agenda         *agenda // of the heartbeat
	emulation      *emulation
	waiting        lookup // what waits to be written
	limits         *admission.Limits
	rates          rates
	users          admission.Users

	mu        sync.Mutex // guards what follows
	closing   bool
	draining  bool // Drain or Shutdown was called
	sessions  int
	queries   int // requests for routes that are being answered
	addresses map[netip.Addr]*caller
	ramp      *admission.Ramp
}

// Transport is one way in which clients connect. Its methods may be called concurrently.
type Transport interface {
	// Name is that of the metrics, such as sse.
	Name() string
	// Len returns how many clients are connected, and Clients visits them. A client may end while it is being visited.
	Len() int
	Clients() iter.Seq[*Client]
	Stats() TransportStats
	// Shutdown tells all clients to go elsewhere, and waits until they are gone. When ctx ends first, their connections are cut, and Shutdown
	// returns an error.
	Shutdown(ctx context.Context) error
}

// Drainer is a Transport whose connections are told, when a drain begins, that their next calls and requests belong elsewhere. Clients are not ended.
type Drainer interface {
	Transport
	Drain() // may be called before Shutdown, and does not wait
}

// HTTPTransport is a Transport whose clients come with HTTP requests.
type HTTPTransport interface {
	Transport
	http.Handler // serves one client

	// Patterns are those of the requests, as [http.ServeMux] has them: method and path.
	Patterns() []string
	// NeverBlocks reports whether ServeHTTP returns at once, so that it may run on the goroutine that accepts connections.
	NeverBlocks() bool
}

// New returns a gateway for the hub, whose clients connect by the given transports: functions such as websocket.New and sse.New, from the
// folders below this one. The caller serves the gateway's Handler and calls Shutdown in the end, before it closes the hub.
func New(h *hub.Hub, o *Options, transports ...func(*Gateway) Transport) *Gateway {
	g := &Gateway{
		hub: h, options: o.withDefaults(), began: time.Now(), counts: newCounters(), agenda: newAgenda(),
		addresses: map[netip.Addr]*caller{},
	}
	g.limits, g.rates = g.options.Limits, newRates(&g.options)
	g.ramp = admission.NewRamp(g.options.Connects, g.options.ConnectsPerAddress)
	g.pages = origin.New(g.options.Origins)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.emulation = newEmulation(g)
	for _, create := range transports {
		g.transports = append(g.transports, create(g))
	}
	g.running.Go(g.heartbeat)
	return g
}

// Handler returns what serves the client transports, at their paths, EmulationPath, and [route.Path] with Options.Routes. The body of a request has to arrive within
// Options.ConnectTimeout.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, t := range g.transports {
		if h, ok := t.(HTTPTransport); ok {
			for _, pattern := range h.Patterns() {
				mux.Handle(pattern, h)
			}
		}
	}
	mux.HandleFunc("POST "+EmulationPath, g.serveEmulation)
	if g.options.Routes != nil {
		mux.HandleFunc("GET "+route.Path, g.serveRoutes)
	}
	return BoundBodies(g.options.ConnectTimeout, g.pages.Handler(mux))
}

// UpgradeHandler returns the handler of a request that a transport answers without blocking, a WebSocket upgrade, and nil for every other
// request. The handler may run on the goroutine that accepts connections: pass UpgradeHandler to [websocket.NewUpgradeListener].
//
// [websocket.NewUpgradeListener]: https://pkg.go.dev/github.com/sluice-push/sluice/websocket#NewUpgradeListener
func (g *Gateway) UpgradeHandler(r *http.Request) http.Handler {
	for _, t := range g.transports {
		h, ok := t.(HTTPTransport)
		if ok && h.NeverBlocks() && slices.Contains(h.Patterns(), r.Method+" "+r.URL.Path) {
			return h
		}
	}
	return nil
}

// Options returns the gateway's settings, with the defaults. The caller must not change them.
func (g *Gateway) Options() *Options { return &g.options }

// Context returns the context that bounds commands and streams. It ends when the gateway has shut down, or when Shutdown is out of time.
func (g *Gateway) Context() context.Context { return g.ctx }

// Len returns how many clients are connected.
func (g *Gateway) Len() (n int) {
	for _, t := range g.transports {
		n += t.Len()
	}
	return n
}

// clients visits the connected clients of all transports. A client may end while it is being visited.
func (g *Gateway) clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, t := range g.transports {
			for c := range t.Clients() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// clock returns the time in milliseconds since the gateway began, at least 1. It does not jump when the system's time is set.
func (g *Gateway) clock() int64 { return 1 + time.Since(g.began).Milliseconds() }

// Admits reports why no new clients are admitted, nil if they are.
func (g *Gateway) Admits() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return errors.New(shuttingDown)
	}
	return nil
}

// Shutdown asks all clients to connect again, to another node or to this one's successor, and waits until they are gone. When
// ctx ends first the remaining connections and what their commands wait for are cut, and its error is returned. No new clients are
// admitted from the beginning. Calling it again waits for the same. It must not be called from Authenticate or Permit.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.closing, g.draining = true, true
	g.mu.Unlock()
	g.arriving.Wait() // short: no client can hold up its own arrival for longer than the answer to its handshake may take
	stop := context.AfterFunc(ctx, g.cancel)
	defer stop()
	ended := make(chan error, len(g.transports))
	for _, t := range g.transports {
		go func() { ended <- t.Shutdown(ctx) }()
	}
	var err error
	for range g.transports {
		err = errors.Join(err, <-ended)
	}
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

// Refuse answers a request that cannot become a client, and ends its connection, unless that carries other requests as well.
func Refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	endConnection(w, r)
	http.Error(w, reason, status)
}

// endConnection ends the connection of a request with the answer, unless it carries other requests as well.
func endConnection(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// newClientID returns an identity in the form of a UUID.
func newClientID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
