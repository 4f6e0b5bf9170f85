package link

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// Options are the settings of a Server. For numbers, zero is the default.
type Options struct {
	// Node is the ID of this hub, for the logs of gateways. Cluster is the name of its cluster: gateways of another one are refused.
	Node, Cluster string
	// Secret is what gateways have to know; empty: nothing.
	Secret string
	// TLS has links speak TLS; nil: they do not. With RequireAndVerifyClientCert, gateways need a certificate.
	TLS *tls.Config
	// QueueBytes bounds what waits for one gateway of one partition, default 4 MiB; twice as much may be held while it is sent. A gateway that is further
	// behind loads what it has missed.
	QueueBytes int
	// MaxConns bounds the connections of all gateways; default 1,024. As many more may be connected of which no call was successful yet. When there is
	// one more of those, the oldest of them is ended. So peers without the secret do not keep gateways out.
	MaxConns int
	// Logger gets gateways that connect or are refused, broken connections and panics; nil discards.
	Logger *slog.Logger
}

const (
	defaultQueueBytes = 4 << 20
	defaultMaxConns   = 1024
	// maxCallBytes bounds the arguments of the calls under way on one connection.
	maxCallBytes = 4 * wire.MaxFrame
	// maxCalls bounds the calls of all connections. Each Follow stream is one: a gateway has as many as there are partitions.
	maxCalls = 1 << 20
)

// Server answers gateways for a broker, which belongs to the caller. All methods may be called concurrently.
type Server struct {
	broker  broker.Broker
	options Options
	rpc     *rpc.Server
	refused logsample.Warning // limits how often refused gateways are logged

	mu      sync.Mutex
	streams map[string]*following // guarded by mu: the Follow streams by their IDs
	away    chan struct{}         // guarded by mu: closed while the hub is away from its broker; then there is a new one
}

// NewServer returns a Server for a broker. Nil options are all defaults.
func NewServer(b broker.Broker, o *Options) *Server {
	s := &Server{broker: b, streams: map[string]*following{}, away: make(chan struct{})}
	if o != nil {
		s.options = *o
	}
	if s.options.QueueBytes <= 0 {
		s.options.QueueBytes = defaultQueueBytes
	}
	if s.options.MaxConns <= 0 {
		s.options.MaxConns = defaultMaxConns
	}
	if s.options.Logger == nil {
		s.options.Logger = slog.New(slog.DiscardHandler)
	}
	s.rpc = rpc.NewServer(&rpc.Options{
		Frame:        &frame.Options{MaxFrame: wire.MaxFrame},
		MaxBytes:     maxCallBytes,
		MaxAllCalls:  maxCalls,
		MaxUnproven:  s.options.MaxConns,
		Interceptors: []rpc.Interceptor{s.admit},
		Session:      &session.Options{TLS: s.options.TLS, MaxSessions: 2 * s.options.MaxConns},
		Logger:       s.options.Logger,
	})
	s.rpc.Handle(wire.Hello, rpc.MethodOf(rpc.JSON, s.hello))
	s.rpc.Handle(wire.Open, rpc.MethodOf(rpc.JSON, s.open))
	for name, f := range map[string]rpc.Func{
		wire.Publish: s.publish, wire.Head: s.head, wire.Interest: s.interest, wire.Tell: s.tell,
		wire.PutLease: s.putLease, wire.DropLease: s.dropLease,
	} {
		s.rpc.Handle(name, rpc.Method{Protocol: rpc.Raw.Protocol(), Func: f})
	}
	for name, f := range map[string]rpc.StreamFunc{
		wire.Load: s.load, wire.Follow: s.follow, wire.Listen: s.listen, wire.ListLeases: s.listLeases,
	} {
		s.rpc.Handle(name, rpc.Method{Protocol: rpc.Raw.Protocol(), Stream: f})
	}
	return s
}

// Serve accepts links until the server is closed, when it returns session.ErrServerClosed, or until accepting fails for good. It returns an error
// at once if any program that reaches the listener could be a gateway: without a secret and without certificates of clients, only loopback addresses
// and Unix sockets are served.
func (s *Server) Serve(ln net.Listener) error {
	if !s.isGuarded() && !isLocal(ln.Addr()) {
		_ = ln.Close()
		return fmt.Errorf("link: %v can be reached from other machines: set a secret, or have gateways show certificates", ln.Addr())
	}
	return s.rpc.Serve(ln)
}

func (s *Server) isGuarded() bool {
	return s.options.Secret != "" || s.options.TLS != nil && s.options.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

func isLocal(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Shutdown stops accepting, and has gateways go to other hubs. It returns when all links have ended. If ctx is done first, it does what Close does and
// returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error { return s.rpc.Shutdown(ctx) }

// SetAway says whether the hub has lost its broker. While it has, all calls but hello are refused before they take effect, and streams end, so that
// gateways go to other hubs. Links stay open. A hub that knew nothing of this would serve what it has as if there were nothing newer.
func (s *Server) SetAway(isAway bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isAway == isClosed(s.away):
	case isAway:
		close(s.away)
	default:
		s.away = make(chan struct{})
	}
}

// whenAway returns a channel that is closed while the hub is away from its broker.
func (s *Server) whenAway() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close ends all links at once.
func (s *Server) Close() error { return s.rpc.Close() }

// Links returns the number of connections of gateways.
func (s *Server) Links() int { return s.rpc.Stats().Proven }

// admit refuses calls without the secret, and all but hello while the hub is away from its broker.
func (s *Server) admit(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
	isHello := c.Method() == wire.Hello
	err := s.checkSecret(c)
	if err == nil && !isHello && isClosed(s.whenAway()) {
		err = wire.ErrAway
	}
	var out []byte
	if err == nil {
		out, err = next(ctx, c, dst)
	}
	if err == nil {
		return out, nil
	}
	if isHello && s.refused.Due(time.Now()) {
		s.options.Logger.Warn("a gateway is refused", "address", c.RemoteAddr(), "error", err)
	}
	return nil, wire.AnswerError(err)
}

// checkSecret returns an error if a call does not carry the secret, and there is one.
func (s *Server) checkSecret(c *rpc.Call) error {
	if s.options.Secret == "" {
		return nil
	}
	given, _ := c.Metadata(wire.SecretKey)
	if subtle.ConstantTimeCompare([]byte(given), []byte(s.options.Secret)) != 1 {
		return wire.ErrDenied
	}
	return nil
}

func (s *Server) hello(_ context.Context, in *wire.HelloRequest) (*wire.HelloReply, error) {
	if !slices.Contains(in.Versions, wire.Version) {
		return nil, rpc.Errorf(wire.CodeVersion, "this hub speaks version %d of the link, the gateway %v", wire.Version, in.Versions)
	}
	if in.Cluster != s.options.Cluster {
		return nil, rpc.Errorf(wire.CodeVersion, "this hub belongs to cluster %q, the gateway to %q", s.options.Cluster, in.Cluster)
	}
	if s.Links() >= s.options.MaxConns {
		return nil, fmt.Errorf("%w: this hub has %d connections of gateways, which is as many as it takes", broker.ErrBusy, s.options.MaxConns)
	}
	s.options.Logger.Info("a gateway has connected", "node", in.Node)
	return &wire.HelloReply{Version: wire.Version, Node: s.options.Node}, nil
}

// maxPartitions bounds what a gateway can have allocated with one call.
const maxPartitions = 1 << 16

func (s *Server) open(ctx context.Context, in *wire.Namespace) (*struct{}, error) {
	if in.Partitions > maxPartitions {
		return nil, fmt.Errorf("link: %d partitions, at most %d are allowed", in.Partitions, maxPartitions)
	}
	return &struct{}{}, s.broker.Open(ctx, broker.Namespace{
		Name: in.Name, Mode: in.Mode, History: in.History, Partitions: in.Partitions, Durable: in.Durable,
	})
}

func (s *Server) head(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	p, err := wire.ParsePartition(c.Body())
	if err != nil {
		return nil, err
	}
	at, err := s.broker.Head(ctx, p)
	if err != nil {
		return nil, err
	}
	return wire.AppendPosition(dst, at), nil
}

func (s *Server) tell(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	node, payload, err := wire.ParseTell(c.Body())
	if err != nil {
		return nil, err
	}
	return dst, s.broker.Tell(ctx, node, payload)
}

// listen sends an empty message when it listens, and then each control message.
func (s *Server) listen(ctx context.Context, c *rpc.Call, send func([]byte) error) error {
	node, err := wire.ParseText(c.Body())
	if err != nil {
		return err
	}
	away, failed := s.whenAway(), make(chan error, 1)
	var begun sync.WaitGroup // no control message goes before the empty one
	begun.Add(1)
	stop, err := s.broker.Listen(ctx, node, func(payload []byte) {
		begun.Wait()
		if err := send(payload); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	err = send(nil)
	begun.Done()
	if err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-away:
		return wire.ErrAway
	case <-c.Stopping():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) putLease(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	leases, ttl, err := wire.ParseLeases(c.Body(), nil)
	if err != nil {
		return nil, err
	}
	if len(leases) != 1 {
		return nil, wire.ErrLayout
	}
	return dst, s.broker.PutLease(ctx, leases[0], ttl)
}

func (s *Server) dropLease(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	key, err := wire.ParseText(c.Body())
	if err != nil {
		return nil, err
	}
	return dst, s.broker.DropLease(ctx, key)
}

func (s *Server) listLeases(ctx context.Context, c *rpc.Call, send func([]byte) error) error {
	prefix, err := wire.ParseText(c.Body())
	if err != nil {
		return err
	}
	leases, err := s.broker.ListLeases(ctx, prefix)
	if err != nil {
		return err
	}
	var body []byte
	for _, l := range leases {
		if len(body) > 0 && len(body)+len(l.Key)+len(l.Value) > wire.BatchBytes {
			if err := send(body); err != nil {
				return err
			}
			body = body[:0]
		}
		body = wire.AppendLease(body, l, 0)
	}
	if len(body) > 0 {
		return send(body)
	}
	return nil
}
