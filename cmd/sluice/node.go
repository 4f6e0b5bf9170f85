package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/capacity"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/cmd/sluice/internal/descriptors"
	"github.com/sluice-push/sluice/cmd/sluice/internal/drain"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/forwarded"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/connect"
	"github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/metrics"
	"github.com/sluice-push/sluice/push/origin"
	"github.com/sluice-push/sluice/push/revocation"
)

// node is a hub and a gateway in one process, and the HTTP servers around them. A hub without a public address has a gateway without clients, and
// the broker of a gateway asks other nodes.
type node struct {
	tokens  *tokens
	limits  config.Limits     // with what follows from the capacity of the process
	cluster *clusternode.Node // nil: the node is in no cluster
	view    clusternode.Handler
	broker  broker.Broker
	hub     *hub.Hub
	source  broker.Broker    // the hub as the broker of gateways; nil: it serves none
	revoked *revocation.Book // nil: no tokens are accepted
	gateway *gateway.Gateway
	grpc    *grpc.Transport
	metrics *metrics.Metrics

	handler          atomic.Pointer[http.Handler] // of the public address; nil until the broker is ready
	public, internal net.Listener                 // may be nil
	link             net.Listener                 // for gateways; nil: there is none
	linkTLS          *tls.Config                  // of link; nil: none
	grpcOnly         net.Listener                 // nil if gRPC has no address of its own
	tls              *tls.Config                  // of public and grpcOnly; nil: none
	internalTLS      *tls.Config                  // of internal; nil: none
	grpcListeners    []net.Listener               // served by grpc when the broker is ready
	tcp              tcpPort
	servers          []*http.Server
	publicServer     *http.Server // also in servers
	crossSite        crossSite
	insecure         bool
	draining         *drain.Drain
	serving          sync.WaitGroup
	failed           chan error // receives the error of a server that stopped by itself
}

type nodeOptions struct {
	insecure bool
	page     bool
	log      *slog.Logger
}

// startNode starts a node and returns when it serves clients. It listens on the addresses first, so that an address in use is reported at once.
func startNode(ctx context.Context, cfg *config.Config, o nodeOptions) (*node, error) {
	n := &node{failed: make(chan error, 6), draining: drain.New(cfg.Shutdown), metrics: metrics.New(&metrics.Options{Version: version(), Logger: o.log})}
	if err := n.start(ctx, cfg, o); err != nil {
		stopped, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		_ = n.stop(stopped)
		return nil, err
	}
	return n, nil
}

func (n *node) start(ctx context.Context, cfg *config.Config, o nodeOptions) error {
	err := n.listen(ctx, cfg, o.log)
	if err != nil {
		return err
	}
	n.crossSite, n.insecure, n.limits = crossSite{origin.New(cfg.Origins)}, o.insecure, capacity.Own().Fill(cfg.Limits)
	if n.public != nil {
		n.servePublic(cfg, o.log)
	}
	if n.internal != nil {
		n.serve(overTLS(descriptors.NewSpare(n.internal, true, o.log), n.internalTLS), newServer(n.crossSite.checkHost(n.internal, n.crossSite.refuseEmbedding(n.internalHandler())), o.log))
	}
	limits := admission.NewLimits(o.log, cfg.Limits.Dry...)
	if n.tokens, err = openTokens(cfg, newTokenGate(limits, cfg.Limits.TokenChecks), o.log); err != nil {
		return err
	}
	keys, err := config.NewKeys(cfg, o.log)
	if err != nil {
		return fmt.Errorf("cannot read the keys of the API (setting %q): %w", "api.keys_file", err)
	}
	access := newAccess(cfg, o.insecure, n.tokens, keys)
	if err = n.openHub(ctx, cfg, access, limits, o.log); err != nil {
		return err
	}
	n.openGateway(cfg, access, limits, o.log)
	if err = n.followRevocations(ctx, access, o.log); err != nil {
		return fmt.Errorf("cannot read what tokens are revoked: %w", err)
	}
	calls := api.New(n.hub, &api.Options{
		Authorize: access.authorize,
		Allow:     access.allow,

		Revocations: access.revocations(),
		MaxData:     int(cfg.Limits.MessageBytes),
		MaxBody:     1<<20 + int64(base64.StdEncoding.EncodedLen(cfg.Limits.MostMessageBytes())),
		Exceeded:    func() bool { return limits.Exceeded(admission.MessageBytes, "client", "API") },
		Observe:     n.metrics.ObserveRequest,
		Logger:      o.log,
	})
	sources := metrics.Sources{Hub: n.hub, Gateway: n.gateway, API: calls, Broker: n.broker, Tokens: access.tokenCounts}
	if n.cluster != nil {
		sources.Cluster = n.cluster
	}
	n.metrics.SetSources(sources)
	handler := n.publicHandler(calls, o.page)
	if o.insecure && n.public != nil {
		handler = n.crossSite.checkHost(n.public, handler)
	}
	n.handler.Store(&handler)
	n.draining.Serve(n.gateway)
	n.serveGRPC(o.log)
	n.serveTCP()
	if n.cluster != nil {
		if n.link != nil {
			n.source = n.hub.Source()
			n.cluster.ServeLinks(n.source, func(err error) { n.failed <- err })
		}
		if err := n.cluster.Admit(n.gateway); err != nil {
			return err
		}
		return nil
	}
	n.view.Show(clusternode.Alone(cfg, n.clusterOptions(o.log), func(m *cluster.Member) {
		m.Sessions, m.Draining = n.gateway.Len(), n.draining.IsGoing()
	}))
	return nil
}

// clusterOptions returns what a cluster is told of the node.
func (n *node) clusterOptions(log *slog.Logger) clusternode.Options {
	return clusternode.Options{
		Public: n.public, PublicTLS: n.tls != nil, Link: n.link, LinkTLS: n.linkTLS, Capacity: n.limits.Sessions,
		Version: version(), Log: log,
	}
}

// openHub joins the cluster, if the node is in one, and makes the hub. The broker of a gateway asks the hubs of the cluster.
func (n *node) openHub(ctx context.Context, cfg *config.Config, access *access, limits *admission.Limits, log *slog.Logger) (err error) {
	settings := &hub.Options{
		Version:                 version(),
		Linger:                  lingerOf(cfg),
		SubscriptionsPerSession: zeroAsUnlimited(cfg.Limits.SubscriptionsPerSession),
		Exceeded:                func(c push.ClientInfo) { limits.Exceeded(admission.Subscriptions, "client", c.Client, "user", c.User) },
		DrySubscriptions:        !limits.Enforced(admission.Subscriptions),
		Bandwidth:               int64(cfg.Limits.Bandwidth),
		Observer:                n.metrics.HubObserver(),
		Logger:                  log,
	}
	if cfg.Cluster.Name != "" {
		if n.cluster, err = clusternode.New(cfg, n.clusterOptions(log)); err != nil {
			return err
		}
		settings.Name = n.cluster.ID()
	}
	hubOf := func(ctx context.Context, b broker.Broker) (*hub.Hub, error) {
		return hub.New(ctx, b, access.namespaces, settings)
	}
	if cfg.Role == cluster.Gateway {
		return n.openOnHubs(ctx, hubOf, log)
	}
	n.broker, n.hub, err = openHub(ctx, func(ctx context.Context) (broker.Broker, error) { return openBroker(ctx, cfg, log) }, log, hubOf)
	if err == nil && n.cluster != nil {
		err = n.join()
	}
	return err
}

// join joins the cluster.
func (n *node) join() error {
	if err := n.cluster.Join(n.broker); err != nil {
		return err
	}
	n.view.Show(n.cluster.View)
	return nil
}

// openOnHubs makes the hub of a gateway. It waits until hubs are known and can be reached.
func (n *node) openOnHubs(ctx context.Context, hubOf func(context.Context, broker.Broker) (*hub.Hub, error), log *slog.Logger) (err error) {
	if n.broker, err = n.cluster.OpenBroker(); err != nil {
		return err
	}
	if err = n.join(); err != nil {
		return err
	}
	return retryUnreachable(ctx, log, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		if err := n.cluster.Known(limited); err != nil {
			return unreachable{err}
		}
		n.hub, err = hubOf(ctx, n.broker)
		switch {
		case isUnavailable(n.broker, err):
			return unreachable{err}
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("this gateway and its hubs need the same namespaces: %w", err)
		}
		return err
	})
}

// listen listens on all addresses.
func (n *node) listen(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	if err = n.listenPublic(cfg, log); err != nil {
		return err
	}
	if n.internalTLS, err = loadTLS("internal_tls", cfg.InternalTLS, log); err != nil {
		return err
	}
	if cfg.Internal != "" {
		if n.internal, err = listen("internal", cfg.Internal); err != nil {
			return err
		}
	}
	if n.linkTLS, err = loadTLS("cluster.link.tls", cfg.Cluster.Link.TLS, log); err != nil {
		return err
	}
	if n.link, err = clusternode.Listen(ctx, &cfg.Cluster.Link); err != nil {
		return err
	}
	return n.tcp.listen(ctx, cfg, log)
}

// openGateway makes the gateway, with all transports.
func (n *node) openGateway(cfg *config.Config, access *access, counted *admission.Limits, log *slog.Logger) {
	limits := n.limits
	log.Info("serving clients", "max_clients", limits.Sessions, "max_queued_bytes", int64(limits.Backlog))
	proxies, _ := forwarded.Parse(cfg.TrustedProxies) // the configuration is valid
	var routes gateway.Routes                         // nil: the node is in no cluster, or not found by clients
	if n.cluster != nil && n.public != nil {
		routes = n.cluster
	}
	n.gateway = gateway.New(n.hub, &gateway.Options{
		Routes:             routes,
		Proxies:            proxies,
		Authenticate:       access.authenticate,
		Permit:             access.permit,
		Revoked:            access.revokedIdentity,
		Origins:            cfg.Origins,
		Compression:        cfg.Compression,
		MessageBytes:       int(cfg.Limits.MessageBytes),
		FrameBytes:         cfg.Limits.FrameBytes(),
		SendBuffer:         int(cfg.Limits.SendBuffer),
		WriteTimeout:       time.Duration(cfg.Limits.WriteTimeout),
		Sessions:           limits.Sessions,
		Backlog:            int64(limits.Backlog),
		SessionsPerAddress: cfg.Limits.SessionsPerAddress,
		SessionsPerUser:    cfg.Limits.SessionsPerUser,
		Connects:           cfg.Limits.Connects,
		ConnectsPerAddress: cfg.Limits.ConnectsPerAddress,
		BytesPerSession:    int64(cfg.Limits.BytesPerSession),
		Limits:             counted,
		CommandsPerSession: zeroAsUnlimited(limits.CommandsPerSession),
		CommandsPerAddress: zeroAsUnlimited(limits.CommandsPerAddress),
		PingInterval:       pingOf(cfg),
		PongTimeout:        time.Duration(cfg.Ping.Timeout),
		Version:            version(),
		Logger:             log,
	}, append(n.tcp.transports(), wsclients.New, wsclients.NewOneWay, sse.New, sse.NewOneWay, httpstream.New, httpstream.NewOneWay,
		connect.New, func(g *gateway.Gateway) gateway.Transport {
			n.grpc = grpc.New(g)
			return n.grpc
		})...)
}

// upgradeHandler returns the handler of WebSocket upgrades, which run on the accepting goroutine, and nil for all other requests.
func (n *node) upgradeHandler(r *http.Request) http.Handler {
	if n.handler.Load() == nil || n.insecure && !n.crossSite.hostAllowed(n.public, r) {
		return nil // net/http calls the handler, which answers with the reason
	}
	return n.gateway.UpgradeHandler(r)
}

// notReady is the answer of a node that cannot serve clients yet.
const notReady = "not ready: waiting for the broker"

// zeroAsUnlimited translates a count of the configuration, where 0 is no limit, to one of the options, where a negative number is.
func zeroAsUnlimited(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func lingerOf(cfg *config.Config) time.Duration {
	if cfg.Linger == 0 {
		return -1
	}
	return time.Duration(cfg.Linger)
}

func pingOf(cfg *config.Config) time.Duration {
	if cfg.Ping.Interval == 0 {
		return -1
	}
	return time.Duration(cfg.Ping.Interval)
}

func listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (setting %q): %w", addr, key, errors.Unwrap(err))
	}
	return l, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // for the longest query of an event stream, a Last-Event-ID of 1 KiB and the headers that proxies add
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serve starts a goroutine that runs an HTTP server until stop.
func (n *node) serve(l net.Listener, s *http.Server) {
	n.servers = append(n.servers, s)
	n.serving.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	})
}

func (n *node) publicHandler(calls http.Handler, page bool) http.Handler {
	mux := http.NewServeMux()
	clients := n.gateway.Handler()
	mux.Handle("/connection/", clients)
	mux.Handle(gateway.EmulationPath, clients)
	for _, path := range connect.Paths() {
		mux.Handle(path, clients)
	}
	mux.Handle(api.Prefix, n.crossSite.allowOrigins(calls))
	if page {
		mux.Handle("/", pageHandler())
	}
	return mux
}

func (n *node) internalHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+metrics.Path, n.metrics)
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "live") })
	mux.HandleFunc("GET /health/ready", n.ready)
	mux.Handle("POST "+drain.Path, n.draining)
	mux.Handle("GET "+clusternode.Path, &n.view)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// ready answers the health check: it reports whether the gateway admits clients and whether the hub is ready to deliver publications.
func (n *node) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if n.handler.Load() == nil {
		http.Error(w, notReady, http.StatusServiceUnavailable)
		return
	}
	err := n.gateway.Admits()
	if n.draining.IsGoing() {
		err = errors.New("the node is about to shut down")
	}
	if err == nil {
		err = n.hub.Ready(ctx)
	}
	if err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if n.broker.Stats().Full {
		_, _ = fmt.Fprintln(w, "ready for subscribers; the store is full, so publications are refused")
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
}

// stopListening closes the public listener. It does not wait for requests in progress.
func (n *node) stopListening(ctx context.Context) {
	if n.publicServer == nil {
		return
	}
	closed := make(chan struct{})
	n.publicServer.RegisterOnShutdown(sync.OnceFunc(func() { close(closed) })) // called after the listeners are closed
	n.serving.Go(func() { _ = n.publicServer.Shutdown(ctx) })                  // stop calls Shutdown too, and reports its error
	<-closed
}

// stop ends the node in order: it closes the public listener, then ends the clients and closes the TCP port, then waits for requests in progress, then closes the hub
// and the broker. When ctx ends, stop closes connections without waiting. The health endpoint answers until the requests have ended.
func (n *node) stop(ctx context.Context) error {
	var errs []error
	n.stopListening(ctx)
	if n.gateway != nil {
		errs = append(errs, n.gateway.Shutdown(ctx))
	}
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close(ctx))
	}
	for _, s := range n.servers {
		if err := s.Shutdown(ctx); err != nil {
			errs = append(errs, s.Close())
		}
	}
	n.serving.Wait()
	for _, l := range append(n.grpcListeners, n.public, n.grpcOnly, n.internal, n.link, n.tcp.listener) {
		if l != nil {
			_ = l.Close() // a server that ran has closed it already
		}
	}
	if n.tokens != nil {
		n.tokens.close()
	}
	if n.revoked != nil {
		n.revoked.Close()
	}
	if n.source != nil {
		errs = append(errs, n.source.Close())
	}
	if n.hub != nil {
		errs = append(errs, n.hub.Close())
	}
	if n.broker != nil {
		errs = append(errs, n.broker.Close())
	}
	return errors.Join(errs...)
}

// leave tells the cluster, if the node is in one, that it is about to end.
func (n *node) leave() {
	if n.cluster != nil {
		n.cluster.Drain()
	}
}
