package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

// filesPerProxiedClient is how many file descriptors a client behind a simulated network needs: its own, and two of the proxy.
const filesPerProxiedClient = 3

// checkNetwork returns an error if the simulated network is invalid, or if a run behind it would verify nothing.
func (s *Spec) checkNetwork() error {
	isPaced := (s.Shape == One || s.Shape == Idle || s.Shape == Market && s.Stalled == 0) && s.Rate >= 0
	switch {
	case s.Route && (s.Protocol == Plain || s.Transport == "tcp"):
		return errors.New("loadtest: routes are asked for over HTTP, for clients of the client protocol: use another transport, or no routes")
	case s.Route && !isPaced:
		return errors.New("loadtest: clients that come back need shape one or market with a rate and no stalled clients, or shape idle: use one of these, or no routes")
	}
	if s.Network == "" {
		return nil
	}
	c, err := network.ParseConditions(s.Network)
	switch {
	case err != nil:
		return fmt.Errorf("loadtest: %w", err)
	case c.HalfOpen > 0 || c.Refuse:
		return fmt.Errorf("loadtest: network %q refuses or half-opens connections, so a run proves nothing: use one without "+
			"halfopen and refuse", s.Network)
	case c.Reset > 0 && !isPaced:
		return fmt.Errorf("loadtest: network %q resets connections, which only shapes one and market with a rate and no stalled clients, and shape "+
			"idle, support: leave reset out, or use one of these", s.Network)
	case s.Clients > portsPerAddress:
		return fmt.Errorf("loadtest: %d clients behind a network: use at most %d, because they share one address", s.Clients,
			portsPerAddress)
	}
	return nil
}

// proxyFor returns the address that a client dials to reach a node. If the run has a network, that is the address of a proxy, which proxyFor
// starts for the first client of the node. The group owns the proxies. Without a network it is the address of the node.
func (g *group) proxyFor(address string) (string, error) {
	if g.plan.spec.Network == "" {
		return address, nil
	}
	g.proxiesMu.Lock()
	defer g.proxiesMu.Unlock()
	p := g.proxies[address]
	if p == nil {
		c := g.conditions
		c.Seed += uint64(len(g.proxies)) // each proxy has a random sequence of its own
		var err error
		if p, err = network.Listen("", address, c); err != nil {
			return "", fmt.Errorf("loadtest: %w", err)
		}
		g.proxies[address] = p
	}
	return p.Addr().String(), nil
}

// conditions returns the network conditions of a valid spec.
func (s *Spec) conditions() network.Conditions {
	c, _ := network.ParseConditions(s.Network)
	return c
}

// resetsConnections reports whether the simulated network resets connections.
func (s *Spec) resetsConnections() bool { return s.conditions().Reset > 0 }

// rejoins reports whether clients come back when their connection has ended.
func (s *Spec) rejoins() bool { return s.Route || s.resetsConnections() }

// maxJoinTries is how often a client tries to join for the first time if the network may reset its connection meanwhile: often, because on a busy
// machine most tries are reset.
const maxJoinTries = 100

// joinWithRetry joins a client for the first time. It tries again at once behind a network that resets connections, and before a storm, for
// answerTimeout, after a pause if the server refuses the client for now.
func (g *group) joinWithRetry(ctx context.Context, c *client) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := g.join(ctx, c)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case g.rejoins != nil && try < maxJoinTries:
		case g.plan.spec.Shape != Storm || !reasoncount.IsTemporary(err) || time.Since(began) > g.answerTimeout || !g.pauseBeforeRetry(ctx, try-1):
			return err
		}
	}
}

// queueRejoinLocked hands a client that the network has reset to rejoinCutClients. The send does not block: the queue has room for all
// clients, and a client is in it at most once.
func (g *group) queueRejoinLocked(c *client) {
	c.conn, c.state, c.resuming, c.rejoinQueued = nil, disconnected, true, true
	g.uncountLocked(c)
	g.resets.Add(1)
	g.rejoins <- c
}

// rejoinCutClients rejoins each client that the network has reset, until ctx has ended.
func (g *group) rejoinCutClients(ctx context.Context) {
	if g.rejoins == nil {
		return
	}
	var all sync.WaitGroup
	for range min(g.plan.spec.Connect, len(g.clients)) {
		all.Go(func() {
			for {
				select {
				case c := <-g.rejoins:
					c.shard.mu.Lock()
					c.rejoinQueued = false
					c.shard.mu.Unlock()
					g.rejoin(ctx, c)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
}

// stopResets ends the resets of the simulated network, so that all clients can rejoin before the run ends.
func (g *group) stopResets() {
	if g.rejoins == nil {
		return
	}
	g.proxiesMu.Lock()
	defer g.proxiesMu.Unlock()
	g.conditions.Reset = 0
	for _, p := range g.proxies {
		_ = p.SetConditions(g.conditions) // the only error is invalid conditions, and these are valid
	}
}

// reservedFiles is how many file descriptors a process needs in addition to the connections of its clients.
const reservedFiles = 200

// isLoopback reports whether a URL is that of a server on this host.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip.To4() != nil && ip.IsLoopback() || u.Hostname() == "localhost"
}

// processes returns how many client processes a spec needs with a limit of open files. Establishing a connection takes two.
func (s *Spec) processes(files int) int {
	if s.Processes > 0 {
		return s.Processes
	}
	room := files - reservedFiles - 2*s.Connect
	if s.Shape == Storm && s.Rejoin > s.Connect {
		room /= 2 // of each client, which may be establishing a connection
	}
	if s.Network != "" {
		room /= filesPerProxiedClient
	}
	if s.Transport != WebSocket {
		room /= filesPerStream
	}
	room = max(room, 1)
	return (s.Clients + room - 1) / room
}
