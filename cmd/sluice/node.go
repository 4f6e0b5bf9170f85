package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/early"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/metrics"
	"github.com/sluice-push/sluice/push/origin"
)

// node is a hub and a gateway in one process, with the servers around them.
type node struct {
	broker  nodeBroker
	hub     *hub.Hub
	gateway *gateway.Gateway
	metrics *metrics.Metrics

	handler          atomic.Pointer[http.Handler] // for the public; nil as long as the broker is waited for
	public, internal net.Listener                 // internal may be nil
	servers          []*http.Server
	publicServer     *http.Server // one of them
	guard            guard
	insecure         bool
	serving          sync.WaitGroup
	failed           chan error // a server that stopped by itself
}

// nodeBroker is a broker that says how it is.
type nodeBroker interface {
	broker.Broker
	Stats() broker.Stats
}

type nodeOptions struct {
	insecure bool
	page     bool
	log      *slog.Logger
}

// startNode brings a node up and returns when it serves. Addresses that cannot be listened to are found out first.
func startNode(ctx context.Context, cfg *config.Config, o nodeOptions) (*node, error) {
	n := &node{failed: make(chan error, 2), metrics: metrics.New(&metrics.Options{Version: version(), Logger: o.log})}
	if err := n.start(ctx, cfg, o); err != nil {
		stopped, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		_ = n.stop(stopped)
		return nil, err
	}
	return n, nil
}

func (n *node) start(ctx context.Context, cfg *config.Config, o nodeOptions) error {
	var err error
	if n.public, err = listen("listen", cfg.Listen); err != nil {
		return err
	}
	if cfg.Internal != "" {
		if n.internal, err = listen("internal", cfg.Internal); err != nil {
			return err
		}
	}
	n.guard, n.insecure = guard{origin.New(cfg.Origins)}, o.insecure
	n.servePublic(cfg, o.log)
	if n.internal != nil {
		n.serve(newScarce(n.internal, true, o.log), newServer(n.guard.byLocalName(n.internal, n.guard.notForPages(n.internalHandler())), o.log))
	}
	access := newAccess(cfg, o.insecure)
	settings := &hub.Options{
		Version:                 version(),
		Linger:                  lingerOf(cfg),
		SubscriptionsPerSession: orOff(cfg.Limits.SubscriptionsPerSession),
		Bandwidth:               int64(cfg.Limits.Bandwidth),
		Observer:                n.metrics.HubObserver(),
		Logger:                  o.log,
	}
	n.broker, n.hub, err = openHub(ctx,
		func(ctx context.Context) (nodeBroker, error) { return openBroker(ctx, cfg, o.log) }, o.log,
		func(ctx context.Context, b nodeBroker) (*hub.Hub, error) {
			return hub.New(ctx, b, access.namespaces, settings)
		})
	if err != nil {
		return err
	}
	limits := orCapacity(cfg.Limits, ownCapacity())
	o.log.Info("clients are served", "at_most", limits.Sessions, "bytes_waiting_at_most", int64(limits.Backlog))
	n.gateway = gateway.New(n.hub, &gateway.Options{
		Authenticate:       access.authenticate,
		Permit:             access.permit,
		Origins:            cfg.Origins,
		MessageBytes:       int(cfg.Limits.MessageBytes),
		FrameBytes:         cfg.Limits.FrameBytes(),
		SendBuffer:         int(cfg.Limits.SendBuffer),
		WriteTimeout:       time.Duration(cfg.Limits.WriteTimeout),
		Sessions:           limits.Sessions,
		Backlog:            int64(limits.Backlog),
		SessionsPerAddress: cfg.Limits.SessionsPerAddress,
		CommandsPerSession: orOff(limits.CommandsPerSession),
		CommandsPerAddress: orOff(limits.CommandsPerAddress),
		PingInterval:       pingOf(cfg),
		PongTimeout:        time.Duration(cfg.Ping.Timeout),
		Version:            version(),
		Logger:             o.log,
	})
	calls := api.New(n.hub, &api.Options{
		Authorize: access.authorize,
		Allow:     access.allow,
		MaxData:   int(cfg.Limits.MessageBytes),
		Observe:   n.metrics.ObserveRequest,
		Logger:    o.log,
	})
	n.metrics.Watch(metrics.Sources{Hub: n.hub, Gateway: n.gateway, API: calls, Broker: n.broker})
	handler := n.publicHandler(calls, o.page)
	if o.insecure {
		handler = n.guard.byLocalName(n.public, handler)
	}
	n.handler.Store(&handler)
	return nil
}

// servePublic serves the public address. Who comes while the broker is waited for is told to come again.
func (n *node) servePublic(cfg *config.Config, log *slog.Logger) {
	comeAgain := gateway.Waiting(cfg.Origins, waiting)
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := n.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		comeAgain.ServeHTTP(w, r)
	}), log)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		// A stream of events stays with net/http: what the kernel holds for it is bounded here.
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(int(cfg.Limits.SendBuffer)) // it works without
		}
		return ctx
	}
	n.publicServer = s
	n.serve(early.Listen(newScarce(n.public, false, log), n.atOnce, log), s)
}

// atOnce returns the handler of requests that are handled where they are accepted: those that begin a WebSocket connection.
func (n *node) atOnce(r *http.Request) http.Handler {
	if n.handler.Load() == nil || n.insecure && !n.guard.namesThis(n.public, r) {
		return nil // net/http calls the handler that says why
	}
	return n.gateway.AtOnce(r)
}

// waiting is what a node says that cannot serve yet.
const waiting = "not ready: waiting for the broker"

// orOff turns a count where 0 is no limit into an option where that is negative.
func orOff(n int) int {
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
		MaxHeaderBytes:    64 << 10, // the longest query of a stream, with a Last-Event-ID of 1 KiB and all that proxies add
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serve runs an HTTP server until stop.
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
	mux.Handle("/connection/", n.gateway.Handler())
	mux.Handle(api.Prefix, n.guard.forProgramsAndPages(calls))
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
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// ready answers whether clients are served: they are admitted, and a publication comes through.
func (n *node) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if n.handler.Load() == nil {
		http.Error(w, waiting, http.StatusServiceUnavailable)
		return
	}
	err := n.gateway.Admits()
	if err == nil {
		err = n.hub.Ready(ctx)
	}
	if err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if n.broker.Stats().Full {
		_, _ = fmt.Fprintln(w, "ready for readers: the store is full, publications are refused")
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
}

// stopListening closes the public address. Requests under way go on.
func (n *node) stopListening(ctx context.Context) {
	if n.publicServer == nil {
		return
	}
	closed := make(chan struct{})
	n.publicServer.RegisterOnShutdown(sync.OnceFunc(func() { close(closed) })) // called when the listener is
	n.serving.Go(func() { _ = n.publicServer.Shutdown(ctx) })                  // stop looks at the error
	<-closed
}

// stop ends the node in order: nobody connects any more, then clients end, then requests under way, then what they used. When ctx ends it is
// less patient. Health is told until the end.
func (n *node) stop(ctx context.Context) error {
	var errs []error
	n.stopListening(ctx)
	if n.gateway != nil {
		errs = append(errs, n.gateway.Shutdown(ctx))
	}
	for _, s := range n.servers {
		if err := s.Shutdown(ctx); err != nil {
			errs = append(errs, s.Close())
		}
	}
	n.serving.Wait()
	for _, l := range []net.Listener{n.public, n.internal} {
		if l != nil {
			_ = l.Close() // a server has closed it already, if there was one
		}
	}
	if n.hub != nil {
		errs = append(errs, n.hub.Close())
	}
	if n.broker != nil {
		errs = append(errs, n.broker.Close())
	}
	return errors.Join(errs...)
}
