package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sluice-push/sluice/discovery"
)

// registration is an ephemeral node. A goroutine keeps it until the registration is closed.
type registration struct {
	registry *Registry
	node     string
	end      context.CancelFunc // of the goroutine
	ended    chan struct{}      // closed when it has ended

	turn     chan struct{} // holds one element while somebody uses what follows; they may wait for ZooKeeper
	endpoint discovery.Endpoint
	data     string
	replaced bool // another process, or a later registration of this one, has the address
	closed   bool
}

// errReplaced says that the registration has no effect any more.
var errReplaced = fmt.Errorf("%w: another process has registered this address", discovery.ErrClosed)

// take waits for the turn, which the caller gives back by the function.
func (g *registration) take(ctx context.Context) (giveBack func(), err error) {
	select {
	case g.turn <- struct{}{}:
		return func() { <-g.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Register implements [discovery.Registrar].
func (r *Registry) Register(ctx context.Context, service string, e discovery.Endpoint) (discovery.Registration, error) {
	folder, err := r.folder(service)
	if err != nil {
		return nil, err
	}
	data, err := discovery.Encode(&e)
	if err != nil {
		return nil, err
	}
	g := &registration{
		registry: r, node: folder + "/" + nodeOf(e.Address), ended: make(chan struct{}), turn: make(chan struct{}, 1), endpoint: e, data: string(data),
	}
	r.claim(g)
	for {
		err := g.put(ctx, true)
		if err == nil {
			break
		}
		if transient(err) {
			err = r.pause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("discovery: zookeeper: register %s: %w", g.node, err)
		}
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	g.end = end
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		end()
		return nil, discovery.ErrClosed
	}
	r.working.Go(func() { g.keep(keeping) })
	return g, nil
}

// transient reports whether an operation may be tried again after an error.
func transient(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved) ||
		errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrClosing)
}

// claim makes a registration the one that has its node; another of this registry has it no more.
func (r *Registry) claim(g *registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[g.node] = g
}

// has reports whether a registration has its node, as far as this registry is concerned.
func (r *Registry) has(g *registration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[g.node] == g
}

// isOurs reports whether a session is or was one of this registry.
func (r *Registry) isOurs(session int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[session]
}

// put puts the node, with the parents that are missing. If another process has put it, that is removed if first is set, and otherwise left alone. The
// caller has the turn, or nobody else knows the registration yet.
func (g *registration) put(ctx context.Context, first bool) error {
	r, data, node := g.registry, g.data, g.node
	if g.closed {
		return discovery.ErrClosed
	}
	if g.replaced || !r.has(g) {
		return errReplaced
	}
	l, _, err := r.current()
	if err != nil {
		return err
	}
	_, err = do(ctx, r, l, func(conn *zk.Conn) (none struct{}, err error) {
		r.remember(conn.SessionID())
		found, stat, err := conn.Get(node)
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return none, err
		case stat.EphemeralOwner == conn.SessionID():
			if string(found) != data {
				_, err = conn.Set(node, []byte(data), stat.Version)
			}
			return none, err
		case !first && !r.isOurs(stat.EphemeralOwner):
			return none, errReplaced
		default:
			if err := conn.Delete(node, stat.Version); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return none, err
			}
		}
		return none, r.create(conn, node, data)
	})
	g.replaced = errors.Is(err, errReplaced)
	return err
}

// remember notes that a session is one of this registry.
func (r *Registry) remember(session int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[session] = true
}

// create makes an ephemeral node, and its parents.
func (r *Registry) create(conn *zk.Conn, node, data string) error {
	for i, c := range node {
		if c != '/' || i == 0 {
			continue
		}
		if _, err := conn.Create(node[:i], nil, zk.FlagPersistent, r.options.ACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err := conn.Create(node, []byte(data), zk.FlagEphemeral, r.options.ACL)
	if err == nil {
		r.remember(conn.SessionID())
	}
	return err
}

// keep puts the node again when it has gone, until ctx is done.
func (g *registration) keep(ctx context.Context) {
	defer close(g.ended)
	troubled := false
	for {
		err := g.renew(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, discovery.ErrClosed):
			if errors.Is(err, errReplaced) {
				g.registry.options.Logger.Warn("discovery: zookeeper: another process has registered the address", "node", g.node)
			}
			return
		case err != nil && !troubled:
			g.registry.options.Logger.Warn("discovery: zookeeper: the server may not be found", "node", g.node, "err", err)
		}
		troubled = err != nil
		if troubled && g.registry.pause(ctx) != nil {
			return
		}
	}
}

// renew puts the node if it is missing, and waits until it is time to look again: a third of the session's time-out later, or when there is a session
// again. An error means that ZooKeeper did not answer as it should.
func (g *registration) renew(ctx context.Context) error {
	r := g.registry
	l, session, err := r.current()
	if err != nil {
		return err
	}
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	err = g.put(ctx, false)
	giveBack()
	if err != nil {
		return err
	}
	timer := time.NewTimer(min(r.options.SessionTimeout/3, r.options.Refresh))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-session:
	case <-l.lost:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.closing:
		return discovery.ErrClosed
	}
	return nil
}

// Update implements [discovery.Registration].
func (g *registration) Update(ctx context.Context, e discovery.Endpoint) error {
	data, err := discovery.Encode(&e)
	if err != nil {
		return err
	}
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	if g.endpoint.Address != e.Address {
		return fmt.Errorf("%w: the address of a registration is %q, and cannot become %q", discovery.ErrEndpoint, g.endpoint.Address, e.Address)
	}
	g.endpoint, g.data = e, string(data)
	return g.put(ctx, false)
}

// Close implements [discovery.Registration].
func (g *registration) Close(ctx context.Context) error {
	g.end()
	select {
	case <-g.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	r := g.registry
	if g.closed || g.replaced || !r.has(g) {
		g.closed = true
		return nil
	}
	for {
		l, _, err := r.current()
		if err != nil {
			break // the session has ended with the registry
		}
		_, err = do(ctx, r, l, func(conn *zk.Conn) (none struct{}, err error) {
			_, stat, err := conn.Get(g.node)
			if err == nil && r.isOurs(stat.EphemeralOwner) {
				err = conn.Delete(g.node, stat.Version)
			}
			return none, err
		})
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			break
		}
		if !transient(err) {
			return err
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
	g.closed = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[g.node] == g {
		delete(r.nodes, g.node)
	}
	return nil
}
