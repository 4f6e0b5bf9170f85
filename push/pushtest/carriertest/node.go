package carriertest

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/websocket"
)

// namespaces are those of all nodes: streams without a name, short ones that forget soon, tables, values, streams with presence, streams with join
// and leave pushes, and streams with the other policies for slow clients.
func namespaces() []hub.Namespace {
	space := func(name string, mode push.Mode, size int) hub.Namespace {
		ns := broker.Namespace{Name: name, Mode: mode, History: push.History{Size: size}, Partitions: 1}
		return hub.Namespace{Namespace: ns, Deltas: []push.Delta{push.Fossil, push.Merge}}
	}
	chat, ends, cuts := space("chat", push.Stream, 100), space("ends", push.Stream, 10), space("cuts", push.Stream, 10)
	rooms := space("rooms", push.Stream, 100)
	rooms.Presence, rooms.JoinLeave = true, true
	chat.Presence, ends.Slow, cuts.Slow = true, push.SlowUnsubscribe, push.SlowDisconnect
	return []hub.Namespace{
		space("", push.Stream, 20_000), space("short", push.Stream, 10), space("table", push.Table, 1000), space("value", push.Value, 10),
		chat, rooms, ends, cuts,
	}
}

// node is a node: a hub, and a gateway that listens.
type node struct {
	suite     *suite
	hub       *hub.Hub
	gateway   *gateway.Gateway
	transport gateway.Transport
	ln        net.Listener
}

// start starts a node that ends with the check.
func (s *suite) start(o gateway.Options) *node {
	s.Helper()
	o.Logger, o.Compression = s.log.logger(), s.harness.Compression
	h, err := hub.New(s.ctx, s.broker, namespaces(), &hub.Options{Logger: o.Logger})
	s.must("make a hub", err)
	s.atEnd("to close the hub", func() { _ = h.Close() })
	n := &node{suite: s, hub: h}
	n.gateway = gateway.New(h, &o, func(g *gateway.Gateway) gateway.Transport {
		n.transport = s.harness.Transport(g)
		return n.transport
	})
	n.ln, err = s.network.listen(s.ctx)
	if err != nil {
		_ = n.gateway.Shutdown(s.ctx)
		s.Fatalf("listen: %v", err)
	}
	serve := s.harness.Serve
	if serve == nil {
		serve = s.serveHTTP
	}
	stop := serve(n.gateway, n.transport, n.ln)
	s.atEnd("to stop listening", stop)
	s.atEnd("to cut all clients", func() {
		now, cancel := context.WithCancel(s.ctx)
		cancel()
		_ = n.gateway.Shutdown(now)
	})
	return n
}

// serveHTTP serves a gateway's Handler as nodes do.
func (s *suite) serveHTTP(g *gateway.Gateway, _ gateway.Transport, ln net.Listener) (stop func()) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: g.Handler(), ReadHeaderTimeout: Patience, WriteTimeout: s.responseTimeout, Protocols: &protocols}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(websocket.NewUpgradeListener(ln, g.UpgradeHandler, g.Options().Logger)) })
	return func() {
		_ = server.Close()
		serving.Wait()
	}
}

// put publishes from the server's side.
func (n *node) put(channel string, p push.Publication) push.Position {
	n.suite.Helper()
	at, err := n.hub.Publish(n.suite.ctx, channel, p, "")
	n.suite.must("publish", err)
	return at
}

// publish publishes data.
func (n *node) publish(channel, data string) push.Position {
	n.suite.Helper()
	return n.put(channel, push.Publication{Data: []byte(data)})
}

// set sets a row.
func (n *node) set(channel, key, data string) push.Position {
	n.suite.Helper()
	return n.put(channel, push.Publication{Key: key, Data: []byte(data)})
}

// stats returns the counters of the transport.
func (n *node) stats() gateway.TransportStats {
	return n.gateway.Stats().Transports[n.transport.Name()]
}

// waitLen waits until so many clients are left.
func (n *node) waitLen(clients int) {
	n.suite.Helper()
	n.suite.eventually("the clients leave", func() bool { return n.gateway.Len() == clients && n.hub.Stats().Sessions <= clients })
}

// wantSum fails the check unless the counters of the transport add up: each connection is counted once, as connected or by how it ended.
func (n *node) wantSum() {
	n.suite.Helper()
	sum := func(s gateway.TransportStats) uint64 {
		total := uint64(s.Clients) + s.Left + s.TimedOut //nolint:gosec // a length
		for _, count := range s.Disconnected {
			total += count
		}
		return total
	}
	n.suite.eventually("the counters add up", func() bool {
		s := n.stats()
		return s.Opened == sum(s)
	})
}
