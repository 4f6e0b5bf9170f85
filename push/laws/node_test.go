package laws_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
	"github.com/sluice-push/sluice/transport"
)

// pipes is an in-memory listener.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.IPAddr{} }

// dial connects with a pipe that holds size bytes in each direction.
func (l *pipes) dial(ctx context.Context, size int) (net.Conn, error) {
	near, far := transport.Pipe(size)
	select {
	case l.accept <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sockets listens on a Unix socket in its own folder. The gateway keeps a copy of what it writes to a pipe, but not of what it writes to a
// socket.
func sockets() (net.Listener, error) {
	dir, err := os.MkdirTemp("", "laws-")
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &folderListener{ln, dir}, nil
}

// folderListener removes its folder when it is closed.
type folderListener struct {
	net.Listener
	dir string
}

func (l *folderListener) Close() error {
	return errors.Join(l.Listener.Close(), os.RemoveAll(l.dir))
}

// node is a hub with a gateway.
type node struct {
	faulty   *pushtest.Faulty // the broker as the node sees it, with injected faults
	broker   broker.Broker    // the node's own broker, which stop closes; nil if the nodes share one
	hub      *hub.Hub
	gateway  *gateway.Gateway
	listener *pipes
	sockets  net.Listener
	server   *http.Server
	serving  sync.WaitGroup
}

// keptPublications is how many publications of a stream are kept, and keptRemovals how many removals of a table. Both are so few that clients
// miss some, on some clusters more than in others.
func keptPublications(seed uint64) int { return []int{150, 40, 8}[seed%3] }
func keptRemovals(seed uint64) int     { return []int{20, 5, 2}[seed%3] }

// partitions is how many partitions each namespace has.
const partitions = 2

// namespaces returns the namespaces of the nodes.
func namespaces(durable bool, seed uint64) []hub.Namespace {
	var out []hub.Namespace
	for mode := push.Stream; mode <= push.Table; mode++ {
		ns := hub.Namespace{Deltas: []push.Delta{push.Fossil, push.Merge}}
		ns.Name, ns.Mode, ns.Partitions = mode.String(), mode, partitions
		ns.History = push.History{Size: keptPublications(seed)}
		if mode == push.Table {
			ns.History.Size = keptRemovals(seed)
		}
		ns.Durable = durable
		out = append(out, ns)
	}
	return out
}

// start starts a node on a broker.
func start(ctx context.Context, b broker.Broker, durable bool, seed uint64, log *slog.Logger) (*node, error) {
	o := &hub.Options{Linger: -1, Workers: 2, Logger: log}
	if seed%2 == 0 {
		o.Linger = time.Minute
	}
	ln, err := sockets()
	if err != nil {
		return nil, err
	}
	h, err := hub.New(ctx, b, namespaces(durable, seed), o)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	n := &node{hub: h, listener: &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}, sockets: ln}
	n.gateway = gateway.New(h, &gateway.Options{
		PingInterval: -1, WriteTimeout: -1, MessageBytes: 1 << 20, SendBuffer: 4 << 10, Logger: log,
	}, wsclients.New, sse.NewOneWay)
	n.server = &http.Server{Handler: n.gateway.Handler(), ReadHeaderTimeout: *patience}
	n.serving.Go(func() { _ = n.server.Serve(n.listener) })
	n.serving.Go(func() { _ = n.server.Serve(n.sockets) })
	return n, nil
}

// stop ends the node at once. It informs only those clients that can be informed without waiting.
func (n *node) stop() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = n.listener.Close(), n.sockets.Close()
	_ = n.gateway.Shutdown(ctx)
	_ = n.server.Close()
	n.serving.Wait()
	err := n.hub.Close()
	if n.broker != nil {
		err = n.broker.Close()
	}
	return err
}
