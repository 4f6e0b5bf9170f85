package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/metrics"
)

// shutdownTime is how long clients have to go elsewhere when the process is told to end.
const shutdownTime = 10 * time.Second

// What is recorded of waiting when that is asked for: one in so many contentions of a mutex, and one wait in so much time spent waiting.
const (
	mutexFraction = 10
	blockRate     = 10 * time.Microsecond
)

// serveCmd runs a node.
type serveCmd struct {
	Config   string `short:"c" type:"existingfile" help:"Configuration file; sluice config default prints one."`
	Listen   string `help:"Public address, host:port: clients and the HTTP API."`
	Internal string `help:"Address for operators: metrics, health and profiles."`
	Data     string `help:"Folder for what has to outlive the process."`
	Insecure bool   `help:"Run without authentication: clients may do everything, the HTTP API needs no key."`
	Demo     bool   `help:"Publish made-up prices and show them on a page. Implies --insecure, on loopback only."`
	DemoSeed uint64 `default:"1" help:"Seed of the made-up prices."`
	Verbose  bool   `short:"v" help:"Log more."`
	// ProfileLocks is for developers.
	ProfileLocks bool `help:"Record where goroutines wait for each other, for /debug/pprof/mutex and block. Costs some CPU."`
}

// Help is shown by sluice serve --help.
func (serveCmd) Help() string {
	return "Every setting of the file also has an environment variable, SLUICE_ and its path: SLUICE_LIMITS_MESSAGE_BYTES. Flags win over " +
		"variables, these over the file. SIGTERM or Ctrl-C ends the node in order: clients are asked to connect again."
}

// Run runs the node until a signal.
func (c *serveCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.serve(ctx, env)
}

// serve runs the node until ctx ends.
func (c *serveCmd) serve(ctx context.Context, env *environment) error {
	if err := checkAddressSpace(ownAddressSpace()); err != nil {
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
		log.Info("told to end before the broker was there")
		return nil
	}
	if err != nil {
		return err
	}
	if c.ProfileLocks { // behind the start, in which an embedded broker sets the rate as well
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
	case err = <-n.failed:
	}
	stopFeed()
	feed.Wait()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	log.Info("shutting down", "clients", n.gateway.Len())
	return errors.Join(err, n.stop(limit))
}

// load merges the configuration and says what keeps the node from running with it.
func (c *serveCmd) load(env *environment) (*config.Config, error) {
	overrides := map[string]string{}
	if c.Listen != "" {
		overrides["listen"] = c.Listen
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
		for _, ns := range demoNamespaces() {
			if !named(cfg.Namespaces, ns.Name) {
				cfg.Namespaces = append(cfg.Namespaces, ns)
			}
		}
		return cfg, loopbackOnly(cfg, env)
	}
	if !c.Insecure && !cfg.Auth.Anonymous {
		return nil, errors.New("no client could connect, for authentication is not configured: set auth.anonymous: true and say in each " +
			"namespace's allow what anonymous clients may do, or try things out with --insecure or --demo")
	}
	return cfg, nil
}

func named(namespaces []config.Namespace, name string) bool {
	for _, ns := range namespaces {
		if ns.Name == name {
			return true
		}
	}
	return false
}

// demoNamespaces are what the demo and the examples use: tables of quotes, streams of ticks.
func demoNamespaces() []config.Namespace {
	quotes, ticks := config.DefaultNamespace("quotes"), config.DefaultNamespace("ticks")
	quotes.Mode = push.Table
	quotes.History = config.History{Size: 1000, Age: config.Duration(10 * time.Minute)}
	quotes.Delta, ticks.Delta = []push.Delta{push.Fossil, push.Merge}, []push.Delta{push.Fossil, push.Merge}
	ticks.History = config.History{Size: 100_000, Age: config.Duration(10 * time.Minute), Bytes: 64 << 20}
	return []config.Namespace{quotes, ticks}
}

// loopbackOnly moves the addresses to loopback: everybody may do everything in a demo.
func loopbackOnly(cfg *config.Config, env *environment) error {
	for _, addr := range []*string{&cfg.Listen, &cfg.Internal} {
		host, port, err := net.SplitHostPort(*addr)
		if err != nil {
			continue // empty: not listened to
		}
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		local := net.JoinHostPort("127.0.0.1", port)
		if host != "" {
			if _, err := fmt.Fprintf(env.stderr, "sluice: a demo listens on loopback only: %s instead of %s\n", local, *addr); err != nil {
				return err
			}
		}
		*addr = local
	}
	return nil
}

// greet says where what is.
func (c *serveCmd) greet(env *environment, n *node) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(env.stdout, format+"\n", args...) }
	public := "http://" + n.public.Addr().String()
	say("sluice is running.")
	if c.Demo {
		say("  page        %s/   (open this: made-up prices, live)", public)
	}
	say("  websocket   ws://%s/connection/websocket", n.public.Addr())
	say("  sse         %s/connection/uni_sse?cf_connect={\"subs\":{\"CHANNEL\":{}}}", public)
	say("  api         %s/api/publish", public)
	if n.internal != nil {
		say("  health      http://%s/health/ready", n.internal.Addr())
		say("  metrics     http://%s%s", n.internal.Addr(), metrics.Path)
	}
	if c.Demo {
		say("Try: sluice sub quotes:all --url %s", public)
	}
}
