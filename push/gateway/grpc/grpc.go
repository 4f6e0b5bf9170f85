package grpc

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/grpc/rawstream"
)

// Name is the name of the metrics.
const Name = "grpc"

// The bounds of a connection.
const (
	mostCalls      = 100
	headerBytes    = 64 << 10
	receiveWindow  = 64 << 10
	readBuffer     = 4 << 10 // commands are small
	setupTimeout   = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	leastPingTime  = 10 * time.Second // between two pings of a client
	quietTime      = time.Minute      // after which a client that sends nothing is pinged by HTTP/2
	defaultTimeout = 10 * time.Second // of an answer to that, if Options.WriteTimeout is off
	defaultLinger  = 5 * time.Second
)

// Transport is the [gateway.Transport] of clients that speak gRPC.
type Transport struct {
	gateway *gateway.Gateway
	server  *grpc.Server
	health  *health.Server
	clients map[string]func(grpc.ServerStream) error // by method
	codec   rawstream.Codec
	batches rawstream.Batches

	twoWay, emulated, oneWay *gateway.Kind

	// How many calls became clients, what they received and sent, and panics in the handling of what they sent.
	opened, in, out, panics atomic.Uint64
	others                  atomic.Int64    // open calls of health checks and reflection
	serving                 context.Context // ends with Shutdown
	stopServing             context.CancelFunc

	drain   sync.Once      // see Drain
	drained chan struct{}  // closed when all connections are, after Drain
	running sync.WaitGroup // calls of clients
	mu      sync.Mutex
	all     map[*call]struct{} // guarded by mu
}

// New returns the transport. Pass a function that returns it to [gateway.New], and call Serve with listeners. It uses the options FrameBytes,
// SendBuffer, WriteTimeout, ConnectTimeout, CommandTimeout, Linger and Logger.
func New(g *gateway.Gateway) *Transport {
	kind := func(f gateway.Protobuf, way gateway.Way) *gateway.Kind {
		return gateway.NewKind(gateway.Encoder{Form: f, Framing: gateway.Bare{}}, way)
	}
	t := &Transport{
		gateway: g, health: health.NewServer(), clients: map[string]func(grpc.ServerStream) error{}, codec: rawstream.NewCodec(), all: map[*call]struct{}{},
		drained:  make(chan struct{}),
		twoWay:   kind(gateway.Protobuf{}, gateway.TwoWay),
		emulated: kind(gateway.Protobuf{}, gateway.Emulated),
		oneWay:   kind(gateway.Protobuf{Bare: true}, gateway.OneWay),
	}
	t.serving, t.stopServing = context.WithCancel(context.Background())
	o := g.Options()
	timeout := max(o.WriteTimeout, 0)
	answer := timeout
	if answer == 0 {
		answer = defaultTimeout
	}
	t.server = grpc.NewServer(
		grpc.Creds(&handshaker{timeout: timeout, sendBuffer: max(o.SendBuffer, 0), begin: t.readProxyHeader}),
		grpc.ForceServerCodecV2(t.codec),
		grpc.InTapHandle(t.tap),
		grpc.StreamInterceptor(t.interceptStream),
		grpc.MaxRecvMsgSize(o.FrameBytes),
		grpc.MaxConcurrentStreams(mostCalls),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(setupTimeout),
		grpc.StaticStreamWindowSize(receiveWindow), // a window that grows would be what a client may make us hold
		grpc.StaticConnWindowSize(mostCalls*receiveWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: quietTime, Timeout: answer}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPingTime, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	t.register()
	return t
}

// Serve serves the connections of a listener, which it closes in the end. It returns nil after Shutdown. Connections of a listener of TLS are
// served if they agree on h2, whether their handshake has been completed or not. If the listener expects PROXY headers, see [transport.Proxy], the
// address of a client is that of the header, with TLS above it or without. It may be called for several listeners.
func (t *Transport) Serve(l net.Listener) error {
	if err := t.server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Name implements gateway.Transport.
func (*Transport) Name() string { return Name }

// Len implements gateway.Transport.
func (t *Transport) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// Clients implements gateway.Transport.
func (t *Transport) Clients() iter.Seq[*gateway.Client] {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.all))
	t.mu.Unlock()
	return func(yield func(*gateway.Client) bool) {
		for _, c := range all {
			if !yield(&c.Client) {
				return
			}
		}
	}
}

func (t *Transport) add(c *call) {
	t.running.Add(1)
	t.mu.Lock()
	t.all[c] = struct{}{}
	t.mu.Unlock()
	c.Arrived()
}

func (t *Transport) remove(c *call) {
	t.mu.Lock()
	delete(t.all, c)
	t.mu.Unlock()
	t.running.Done()
}

// Stats implements gateway.Transport.
func (t *Transport) Stats() gateway.TransportStats {
	s := gateway.SumStats([]*gateway.Kind{t.twoWay, t.emulated, t.oneWay})
	s.Clients, s.Opened = t.Len(), t.opened.Load()
	s.Panics += t.panics.Load()
	s.BytesIn, s.BytesOut = t.in.Load(), t.out.Load()
	return s
}

// Drain implements gateway.Drainer. It closes the listeners, and sends GOAWAY on all connections (RFC 9113 §6.8): a client makes its next call on another
// connection, while its calls on this one go on. Health checks say that the node does not serve.
func (t *Transport) Drain() {
	t.health.Shutdown()
	t.drain.Do(func() {
		go func() { // Shutdown waits for it
			t.server.GracefulStop()
			close(t.drained)
		}()
	})
}

// Shutdown implements gateway.Transport. It closes the listeners, tells all connections and clients to go elsewhere, and waits until the
// connections are closed.
func (t *Transport) Shutdown(ctx context.Context) error {
	t.Drain()
	t.stopServing()
	for c := range t.Clients() {
		c.Disconnect(push.DisconnectShutdown)
	}
	var err error
	select {
	case <-t.drained:
	case <-ctx.Done():
		t.server.Stop()
		<-t.drained
		err = ctx.Err()
	}
	t.running.Wait()
	return err
}

// linger is how long what a client was sent may stay unread after the end of its call, before the connection is closed.
func (t *Transport) linger() time.Duration {
	if d := t.gateway.Options().Linger; d != 0 {
		return max(d, 0)
	}
	return defaultLinger
}

// interceptStream bounds the calls of health checks and reflection.
func (t *Transport) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if _, client := t.clients[info.FullMethod]; client {
		return handle(srv, stream)
	}
	defer t.others.Add(-1)
	if t.others.Add(1) > mostOthers {
		return endOf(stream, clientrpc.Status{
			Code: codes.ResourceExhausted, Text: "too many calls of health checks and reflection", Wait: gateway.MinRetry,
		})
	}
	from, _ := peer.FromContext(stream.Context())
	secured, ok := from.AuthInfo.(*security)
	if !ok {
		return status.Error(codes.Internal, "not a connection of this server")
	}
	if err := sendPlain(stream.Context()); err != nil {
		return err
	}
	cancel := cancelOf(stream.Context())
	s := &otherStream{ServerStream: stream, codec: t.codec}
	s.sender.Init(stream, &t.batches, t.gateway.Options().WriteTimeout, cancel)
	defer s.sender.End(secured.conn, t.linger())
	stop := context.AfterFunc(t.serving, cancel)
	defer stop()
	return handle(srv, s)
}
