package load

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

// filesBehindNetwork is how many files a client needs that reaches the server through a network: its own, and two of the proxy.
const filesBehindNetwork = 3

// checkNetwork refuses a network behind which nothing would be proved.
func (s *Spec) checkNetwork() error {
	if s.Network == "" {
		return nil
	}
	c, err := network.ParseConditions(s.Network)
	switch {
	case err != nil:
		return fmt.Errorf("load: %w", err)
	case c.HalfOpen > 0 || c.Refuse:
		return fmt.Errorf("load: network %q keeps clients out, or leaves them with nobody, so that a run would prove nothing: use one without "+
			"halfopen and refuse", s.Network)
	case c.Reset > 0 && (s.Shape != One && s.Shape != Idle || s.Rate < 0):
		return fmt.Errorf("load: network %q resets connections, from which clients resume in shape one with a rate and in shape idle: "+
			"leave reset out, or use one of these", s.Network)
	case s.Clients > portsOfAddress:
		return fmt.Errorf("load: %d clients behind a network: it has to be at most %d, for to the server they have one address", s.Clients,
			portsOfAddress)
	}
	return nil
}

// through returns where to connect to in order to reach an address: a proxy for it, where there is a network between the clients and the
// server. The group owns the proxies, one an address of a node.
func (g *group) through(address string) (string, error) {
	if g.plan.spec.Network == "" {
		return address, nil
	}
	g.betweenMu.Lock()
	defer g.betweenMu.Unlock()
	p := g.between[address]
	if p == nil {
		c := g.weak
		c.Seed += uint64(len(g.between)) // nodes differ
		var err error
		if p, err = network.Listen("", address, c); err != nil {
			return "", fmt.Errorf("load: %w", err)
		}
		g.between[address] = p
	}
	return p.Addr().String(), nil
}

// conditions are those of the network of a run that is valid.
func (s *Spec) conditions() network.Conditions {
	c, _ := network.ParseConditions(s.Network)
	return c
}

// isCut reports whether the network of a run resets connections.
func (s *Spec) isCut() bool { return s.conditions().Reset > 0 }

// enterTries is how often a client tries to come in for the first time when the network may cut it while it does.
const enterTries = 10

// enter lets a client come in for the first time.
func (g *group) enter(ctx context.Context, c *client) error {
	err := g.join(ctx, c)
	for try := 1; try < enterTries && g.away != nil && err != nil && ctx.Err() == nil; try++ {
		err = g.join(ctx, c)
	}
	return err
}

// cutLocked gives a client to the ushers that the network has cut. There is room: a client is in the queue once at most.
func (g *group) cutLocked(c *client) {
	c.conn, c.state, c.resuming, c.queued = nil, apart, true, true
	g.leftLocked(c)
	g.resets.Add(1)
	g.away <- c
}

// usher lets clients that the network has cut come back, until ctx has ended.
func (g *group) usher(ctx context.Context) {
	if g.away == nil {
		return
	}
	var all sync.WaitGroup
	for range min(g.plan.spec.Connect, len(g.clients)) {
		all.Go(func() {
			for {
				select {
				case c := <-g.away:
					c.tally.mu.Lock()
					c.queued = false
					c.tally.mu.Unlock()
					g.comeBack(ctx, c)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
}

// calm has the network cut no more, so that all can be back when a run ends.
func (g *group) calm() {
	if g.away == nil {
		return
	}
	g.betweenMu.Lock()
	defer g.betweenMu.Unlock()
	g.weak.Reset = 0
	for _, p := range g.between {
		_ = p.SetConditions(g.weak) // which are right, as they were before
	}
}
