// Package clusternode makes a node part of a cluster, as its configuration says: it announces the node to the others and hears of them, serves the
// node's channels to gateways, or gets channels from hubs.
//
//	configuration ──► Node ──► members.Directory ◄──► other nodes
//	                   │              │
//	                   │           places ──► push/broker/link ◄──► hubs      (role gateway)
//	                   └── push/link ◄──► gateways                            (roles hub and all)
//
// What follows from the members is worked out by package push/cluster.
package clusternode

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	gatewaylink "github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/session"
)

// Options are what a node knows of itself besides its configuration.
type Options struct {
	// Public and Link are the listeners for clients and gateways; nil: there is none.
	Public, Link net.Listener
	// PublicTLS says that clients use TLS.
	PublicTLS bool
	// LinkTLS is the certificate for gateways; nil: links do not use TLS.
	LinkTLS *tls.Config
	// Capacity is how many clients may be connected.
	Capacity int
	Version  string
	Log      *slog.Logger
}

// Node is the part of a node in a cluster. New makes one that the others do not know yet. Join, ServeLinks, Admit,
// Drain and Close are called in this order.
type Node struct {
	config  *config.Config
	options Options
	self    cluster.Member
	secret  string
	router  *cluster.Router
	places  *places
	sources sources
	sent    sent
	moved   atomic.Uint64

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	running   sync.WaitGroup
	directory *members.Directory          // nil before Join
	broker    broker.Broker               // nil before Join
	links     atomic.Pointer[link.Server] // nil before ServeLinks, and if there is no listener

	mu         sync.Mutex // guards what follows
	isLeaving  bool       // Drain was called
	isDetached bool       // the broker cannot be reached
}

// New returns the part of a node in the cluster of its configuration, which is valid and has a name for it.
func New(cfg *config.Config, o Options) (*Node, error) {
	n := &Node{config: cfg, options: o}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	var err error
	if n.secret, err = readSecret(&cfg.Cluster.Link); err != nil {
		return nil, err
	}
	if n.self, err = describe(cfg, &o); err != nil {
		return nil, err
	}
	if n.router, err = cfg.Cluster.Router(); err != nil {
		return nil, err
	}
	if n.places, err = newPlaces(cfg, n.self.ID); err != nil {
		return nil, err
	}
	return n, nil
}

// ID returns the node's ID in the cluster.
func (n *Node) ID() string { return n.self.ID }

// readSecret returns what hubs and gateways both know.
func readSecret(l *config.Link) (string, error) {
	if l.SecretFile == "" {
		return string(l.Secret), nil
	}
	text, err := os.ReadFile(l.SecretFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the secret of links (setting %q): %w", "cluster.link.secret_file", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("the secret of links is empty: put a long random text into %s (setting %q)", l.SecretFile, "cluster.link.secret_file")
	}
	return secret, nil
}

// OpenBroker returns the broker of a gateway, which asks the hubs. The caller closes it.
func (n *Node) OpenBroker() (broker.Broker, error) {
	l := &n.config.Cluster.Link
	secure, err := gatewayTLS(l)
	if err != nil {
		return nil, err
	}
	return gatewaylink.New(&gatewaylink.Options{
		Placement: n.places, Node: n.self.ID, Cluster: n.self.Cluster, Secret: n.secret, TLS: secure, Connections: l.Connections, Logger: n.options.Log,
	})
}

// Join announces the node, which takes no clients yet, and hears of the others from now on. The broker is that of the node, and has to stay
// open until Close.
func (n *Node) Join(b broker.Broker) error {
	n.broker = b
	source, err := n.sources.open(n.config, b, n.options.Log)
	if err != nil {
		return err
	}
	self := n.self
	self.Draining = true
	if n.directory, err = members.Join(&self, source, &members.Options{Logger: n.options.Log}); err != nil {
		return fmt.Errorf("cannot join the cluster: %w", err)
	}
	n.running.Go(func() { _ = n.directory.Watch(n.ctx, n.places.update) }) // it ends with Close
	return nil
}

// Known waits until the other nodes are known. The error says why they are not.
func (n *Node) Known(ctx context.Context) error {
	select {
	case <-n.directory.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the nodes of the cluster %q are not known: %w", n.self.Cluster, cmp.Or(n.directory.Err(), ctx.Err()))
	}
}

// Set returns the members of the cluster. It may be called concurrently, after Join.
func (n *Node) Set() *cluster.Set { return n.directory.Set() }

// ServeLinks lets gateways connect to the listener of the options, and answers them with a broker, which has to stay open until Close. failed is called
// with an error that ends the serving.
func (n *Node) ServeLinks(b broker.Broker, failed func(error)) {
	links := link.NewServer(b, &link.Options{
		Node: n.self.ID, Cluster: n.self.Cluster, Secret: n.secret, TLS: n.options.LinkTLS, Logger: n.options.Log,
	})
	n.links.Store(links)
	n.running.Go(func() {
		if err := links.Serve(n.options.Link); err != nil && !errors.Is(err, session.ErrServerClosed) {
			failed(fmt.Errorf("serve links on %s: %w", n.options.Link.Addr(), err))
		}
	})
}

// Links returns how many connections of gateways there are. It may be called concurrently.
func (n *Node) Links() int {
	if links := n.links.Load(); links != nil {
		return links.Links()
	}
	return 0
}

// period is how often the node announces how many clients it has, looks whether its broker can be reached, and which clients should move.
const period = time.Second

// Admit tells the others that the node takes clients and channels. From then on it announces how many clients are connected, and moves clients that belong
// to other gateways. While its broker cannot be reached, the others pass the node over, and gateways go to other hubs.
func (n *Node) Admit(clients Clients) error {
	rebind, err := n.newRebinder()
	if err != nil {
		return err
	}
	n.announce()
	n.running.Go(func() { n.keepUp(clients) })
	if rebind != nil {
		n.running.Go(func() { n.rebind(rebind, clients) })
	}
	return nil
}

// keepUp announces how many clients are connected, and whether the broker can be reached, until Close.
func (n *Node) keepUp(clients Clients) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for wasConnected := true; ; {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
		isConnected := n.broker.Stats().Connected
		n.setDetached(!isConnected && !wasConnected) // a moment without a connection moves nothing
		wasConnected = isConnected
		if count := clients.Len(); count != n.directory.Set().Member(n.self.ID).Sessions {
			n.update(func(m *cluster.Member) { m.Sessions = count })
		}
	}
}

// rebind moves clients that belong to other gateways, until Close.
func (n *Node) rebind(r *rebinder, clients Clients) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-n.ctx.Done():
			return
		}
		moved, pause := r.step(time.Now(), n.directory.Set(), clients.Sessions())
		if moved > 0 {
			n.moved.Add(uint64(moved)) //nolint:gosec // not negative
			n.options.Log.Debug("clients sent to other gateways", "clients", moved)
		}
		timer.Reset(pause)
	}
}

// Moved returns how many clients were sent to other gateways because they belong there. It may be called concurrently.
func (n *Node) Moved() uint64 { return n.moved.Load() }

// setDetached says whether the broker cannot be reached.
func (n *Node) setDetached(isDetached bool) {
	n.mu.Lock()
	hasChanged := isDetached != n.isDetached
	n.isDetached = isDetached
	n.mu.Unlock()
	if !hasChanged {
		return
	}
	if isDetached {
		n.options.Log.Warn("the broker cannot be reached: other nodes are used instead of this one")
	} else {
		n.options.Log.Info("the broker can be reached again")
	}
	if links := n.links.Load(); links != nil {
		links.SetAway(isDetached)
	}
	n.announce()
}

// announce tells the others whether the node takes clients and channels.
func (n *Node) announce() {
	n.update(func(m *cluster.Member) {
		n.mu.Lock()
		defer n.mu.Unlock()
		m.Draining = n.isLeaving || n.isDetached
	})
}

// update changes what the others know of this node.
func (n *Node) update(change func(*cluster.Member)) {
	if err := n.directory.Update(change); err != nil && !errors.Is(err, members.ErrClosed) {
		n.options.Log.Error("the cluster cannot be told what has changed", "error", err)
	}
}

// Drain tells the others that the node is about to end: it gets no new clients, and gateways go to other hubs.
func (n *Node) Drain() {
	n.mu.Lock()
	n.isLeaving = true
	n.mu.Unlock()
	if n.directory != nil {
		n.announce()
	}
}

// Close takes the node out of the cluster, and ends its links: gateways go to other hubs. When ctx ends, links are cut. The broker of Join is not
// used any more when Close returns.
func (n *Node) Close(ctx context.Context) error {
	var errs []error
	if n.directory != nil {
		errs = append(errs, n.directory.Close(ctx))
	}
	if links := n.links.Load(); links != nil {
		errs = append(errs, links.Shutdown(ctx))
	}
	n.cancel()
	n.running.Wait()
	return errors.Join(append(errs, n.sources.close())...)
}
