package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/capacity"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/metrics"
)

// shutdownTime is how long a node that is told to end waits for its clients to disconnect.
const shutdownTime = 10 * time.Second

// Sampling rates of --profile-locks: one in so many contentions of a mutex, and on average one sample for so much time spent waiting.
const (
	mutexFraction = 10
	blockRate     = 10 * time.Microsecond
)

// serveCmd runs a node.
type serveCmd struct {
	Config   string  `short:"c" type:"existingfile" help:"Configuration file; sluice config default prints one."`
	Role     string  `help:"What the node does: all, hub or gateway."`
	Listen   *string `help:"Public address, host:port, for clients and the HTTP API. A hub may have none: ''."`
	Internal string  `help:"Internal address, host:port, for metrics, health checks, profiles, sluice info and sluice drain."`
	Data     string  `help:"Data folder, in which the embedded broker stores publications."`
	Insecure bool    `help:"Disable authentication: clients may do everything, and the HTTP API needs no key."`
	Demo     bool    `help:"Publish made-up prices and show them on a page. Implies --insecure, and listens on loopback only."`
	DemoSeed uint64  `default:"1" help:"Seed of the made-up prices."`
	Verbose  bool    `short:"v" help:"Log at level debug."`
	// ProfileLocks is for developers of Sluice.
	ProfileLocks bool `help:"Record mutex and block profiles for /debug/pprof/mutex and /debug/pprof/block. Costs some CPU."`
}

// Help is shown by sluice serve --help.
func (serveCmd) Help() string {
	return "Each setting of the configuration file also has an environment variable: SLUICE_ and the path of the setting, as in " +
		"SLUICE_LIMITS_MESSAGE_BYTES. Flags override variables, and variables override the file. SIGTERM or Ctrl-C shuts the node down " +
		"gracefully: the node asks its clients to reconnect. See shutdown in the configuration. The command sluice drain does the same."
}

// Run runs the node until a signal.
func (c *serveCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.serve(ctx, env)
}

// serve runs the node until ctx ends.
func (c *serveCmd) serve(ctx context.Context, env *environment) error {
	if err := capacity.CheckAddressSpace(capacity.AddressSpace()); err != nil {
		return err
	}
	cfg, err := c.load(env)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if c.Verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: level}))
	n, err := startNode(ctx, cfg, nodeOptions{insecure: c.Insecure || c.Demo, page: c.Demo, log: log})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		log.Info("shutting down before the broker was reached")
		return nil
	}
	if err != nil {
		return err
	}
	if c.ProfileLocks { // after the start, because an embedded broker sets the rate when it starts
		runtime.SetMutexProfileFraction(mutexFraction)
		runtime.SetBlockProfileRate(int(blockRate))
	}
	c.greet(env, n)
	var feed sync.WaitGroup
	feeding, stopFeed := context.WithCancel(ctx)
	defer stopFeed()
	if c.Demo {
		feed.Go(func() { runDemo(feeding, n, c.DemoSeed, log) })
	}
	select {
	case <-ctx.Done():
		n.draining.Begin()
		n.leave()
		n.draining.Run(context.WithoutCancel(ctx), log)
	case <-n.draining.Requested():
		n.leave()
		n.draining.Run(ctx, log)
	case err = <-n.failed:
	}
	n.draining.Shutdown()
	stopFeed()
	feed.Wait()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	log.Info("shutting down", "clients", n.gateway.Len())
	err = errors.Join(err, n.stop(limit))
	n.draining.End(err)
	return err
}

// load merges the file, the variables and the flags, and returns an error if a node cannot run with the result.
func (c *serveCmd) load(env *environment) (*config.Config, error) {
	overrides := map[string]string{}
	if c.Role != "" {
		overrides["role"] = c.Role
	}
	if c.Listen != nil {
		overrides["listen"] = *c.Listen
	}
	if c.Internal != "" {
		overrides["internal"] = c.Internal
	}
	if c.Data != "" {
		overrides["data"] = c.Data
	}
	cfg, err := config.Load(c.Config, env.variables, overrides)
	if err != nil {
		return nil, err
	}
	if c.Demo {
		if cfg.Listen == "" {
			return nil, errors.New("the demo has a page: set listen or --listen to an address for it")
		}
		for _, ns := range demoNamespaces() {
			if !hasNamespace(cfg.Namespaces, ns.Name) {
				cfg.Namespaces = append(cfg.Namespaces, ns)
			}
		}
		return cfg, loopbackOnly(cfg, env)
	}
	serves := cfg.Listen != "" || cfg.TCP.Listen != "" || cfg.GRPC.Listen != ""
	if serves && !c.Insecure && !cfg.Auth.Anonymous && !cfg.Auth.KnowsUsers() {
		return nil, errors.New("no client could connect, because authentication is not configured: set auth.jwt, so that clients connect with tokens; " +
			"or auth.anonymous: true and, in allow of each namespace, what anonymous clients may do; or try Sluice out with --insecure or --demo")
	}
	return cfg, nil
}

func hasNamespace(namespaces []config.Namespace, name string) bool {
	for _, ns := range namespaces {
		if ns.Name == name {
			return true
		}
	}
	return false
}

// demoNamespaces returns the namespaces of the demo and the examples: tables of quotes, streams of ticks.
func demoNamespaces() []config.Namespace {
	quotes, ticks := config.DefaultNamespace("quotes"), config.DefaultNamespace("ticks")
	quotes.Mode = push.Table
	quotes.History = config.History{Size: 1000, Age: config.Duration(10 * time.Minute)}
	quotes.Delta, ticks.Delta = []push.Delta{push.Fossil, push.Merge}, []push.Delta{push.Fossil, push.Merge}
	ticks.History = config.History{Size: 100_000, Age: config.Duration(10 * time.Minute), Bytes: 64 << 20}
	return []config.Namespace{quotes, ticks}
}

// loopbackOnly moves the addresses to loopback, because a demo lets every client do everything.
func loopbackOnly(cfg *config.Config, env *environment) error {
	for _, addr := range []*string{&cfg.Listen, &cfg.Internal, &cfg.GRPC.Listen, &cfg.TCP.Listen} {
		if strings.HasPrefix(*addr, config.UnixPrefix) {
			continue
		}
		host, port, err := net.SplitHostPort(*addr)
		if err != nil {
			continue // empty: the node does not listen there
		}
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		local := net.JoinHostPort("127.0.0.1", port)
		if host != "" {
			if _, err := fmt.Fprintf(env.stderr, "sluice: the demo listens on loopback only: on %s instead of %s\n", local, *addr); err != nil {
				return err
			}
		}
		*addr = local
	}
	return nil
}

// secured is the end of the scheme of URLs.
func secured(c *tls.Config) string {
	if c == nil {
		return ""
	}
	return "s"
}

// greet prints the addresses of the node.
func (c *serveCmd) greet(env *environment, n *node) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(env.stdout, format+"\n", args...) }
	say("sluice is running.")
	if n.public != nil {
		c.greetPublic(say, n)
	}
	if l := n.tcp.listener; l != nil {
		say("  tcp         %s", l.Addr())
	}
	if n.grpcOnly != nil {
		say("  grpc        %s", n.grpcOnly.Addr())
	}
	if n.link != nil {
		say("  link        %s", n.link.Addr())
	}
	if n.internal != nil {
		internal := "http" + secured(n.internalTLS)
		say("  health      %s://%s/health/ready", internal, n.internal.Addr())
		say("  metrics     %s://%s%s", internal, n.internal.Addr(), metrics.Path)
	}
	if c.Demo {
		say("Try: sluice sub quotes:all --url http%s://%s", secured(n.tls), n.public.Addr())
	}
}

// greetPublic prints what is at the public address.
func (c *serveCmd) greetPublic(say func(string, ...any), n *node) {
	secure, address := secured(n.tls), n.public.Addr()
	public := "http" + secure + "://" + address.String()
	if c.Demo {
		say("  page        %s/   (open this: made-up prices, live)", public)
	}
	say("  websocket   ws%s://%s/connection/websocket", secure, address)
	say("  sse         %s/connection/uni_sse?cf_connect={\"subs\":{\"CHANNEL\":{}}}", public)
	say("  api         %s/api/publish", public)
	if n.grpcOnly == nil {
		say("  grpc        %s", address)
	}
}
