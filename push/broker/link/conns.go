package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// conns are the connections to hubs. They are made when they are needed. One that has ended is replaced at the next use.
type conns struct {
	broker    *Broker
	unreached logsample.Warning // limits how often hubs that cannot be reached are logged

	mu     sync.Mutex // guards the following
	slots  map[slotKey]*slot
	logged map[string]bool // the hubs of which the log says that they cannot be reached
	closed bool
}

type slotKey struct {
	address string
	index   int
}

// slot is the place of one connection.
type slot struct {
	mu     sync.Mutex    // guards the following
	conn   *conn         // nil before the first
	dialed chan struct{} // closed at the end of the attempt that is under way; nil if there is none
	failed error         // why the last attempt failed; nil if it did not
	until  time.Time     // after a failure there is no other attempt before
}

// dialError means that a hub could not be reached, or has refused the connection.
type dialError struct {
	address string
	err     error
}

func (e *dialError) Error() string { return fmt.Sprintf("link: hub %s: %v", e.address, e.err) }

func (e *dialError) Unwrap() error { return e.err }

// get returns the connection to a hub for a partition, on which the partition's namespace is open.
func (s *conns) get(ctx context.Context, address string, p broker.Partition) (*conn, error) {
	key := slotKey{address, int(hashOf(p) % uint64(s.broker.options.Connections))} //nolint:gosec // a small number
	s.mu.Lock()
	at := s.slots[key]
	if at == nil && !s.closed {
		at = &slot{}
		s.slots[key] = at
	}
	s.mu.Unlock()
	if at == nil {
		return nil, broker.ErrClosed
	}
	c, err := at.use(ctx, s.broker, address)
	if err != nil {
		return nil, err
	}
	if ns, ok := s.broker.namespace(p.Namespace); ok {
		err = c.open(ctx, ns)
	}
	if err != nil && ctx.Err() == nil && isAway(err, true) {
		err = &dialError{address, err} // the operation itself has not begun
	}
	return c, err
}

// use returns the connection. If there is none, it is made, and the caller waits for that. After an attempt that has failed, and after silence, the caller
// gets the error at once, and the next attempt is made beside it: so a hub that does not answer holds up no operation for which there is another hub.
func (t *slot) use(ctx context.Context, b *Broker, address string) (*conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isUpLocked() {
		return t.conn, nil
	}
	if t.conn != nil && t.failed == nil && errors.Is(t.conn.Err(), rpc.ErrSilent) {
		t.failed = &dialError{address, rpc.ErrSilent} // it would not answer an attempt either
	}
	if t.dialed == nil && (t.failed == nil || !time.Now().Before(t.until)) {
		t.dialed = make(chan struct{})
		if !b.start(func() { t.dial(b, address) }) {
			t.dialed = nil
			return nil, broker.ErrClosed
		}
	}
	if dialed := t.dialed; t.failed == nil {
		t.mu.Unlock()
		select {
		case <-dialed:
		case <-ctx.Done():
		}
		t.mu.Lock()
	}
	switch {
	case t.isUpLocked():
		return t.conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case t.failed != nil:
		return nil, t.failed
	}
	return nil, &dialError{address, errEnded}
}

// errEnded means that a connection has ended as soon as it was made.
var errEnded = errors.New("the connection has ended")

func (t *slot) isUpLocked() bool { return t.conn != nil && t.conn.Usable() }

func (t *slot) isUp() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isUpLocked()
}

// dial makes the connection.
func (t *slot) dial(b *Broker, address string) {
	c, err := b.dial(b.ctx, address)
	b.conns.report(address, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.dialed)
	t.dialed = nil
	if err == nil {
		t.conn, t.failed = c, nil
		return
	}
	pause := retryAfter
	var answer *rpc.Error
	if errors.As(err, &answer) && answer.Remote {
		pause = longestPause // the hub refuses this gateway, and will for some time
	}
	t.failed, t.until = &dialError{address, err}, time.Now().Add(pause)
}

// report logs that a hub cannot be reached, once until it can be reached again.
func (s *conns) report(address string, err error) {
	s.mu.Lock()
	isDue := err != nil && !s.logged[address] && s.broker.ctx.Err() == nil && s.unreached.Due(time.Now())
	if isDue {
		s.logged[address] = true
	} else if err == nil {
		delete(s.logged, address)
	}
	s.mu.Unlock()
	if isDue {
		s.broker.options.Logger.Warn("a hub cannot be reached", "hub", address, "error", err)
	}
}

// isUp reports whether there is a connection.
func (s *conns) isUp() bool {
	s.mu.Lock()
	slots := slices.Collect(maps.Values(s.slots))
	s.mu.Unlock()
	return slices.ContainsFunc(slots, (*slot).isUp)
}

// close ends all connections. No goroutine of the broker uses one any more.
func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	slots := s.slots
	s.mu.Unlock()
	for _, t := range slots {
		t.mu.Lock()
		if t.conn != nil {
			_ = t.conn.Close()
		}
		t.mu.Unlock()
	}
}

// conn is a connection to a hub.
type conn struct {
	*rpc.Conn
	metadata []rpc.Pair

	opening chan struct{} // has an element while a namespace is opened
	mu      sync.Mutex
	opened  map[string]broker.Namespace // guarded by mu
}

// dial connects to a hub.
func (b *Broker) dial(ctx context.Context, address string) (*conn, error) {
	o := &b.options
	ctx, cancel := context.WithTimeout(ctx, o.Timeout/2) // so that there is time for another hub
	defer cancel()
	network := "tcp"
	path, isUnix := strings.CutPrefix(address, "unix:")
	if isUnix {
		network, address = "unix", path
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		config := o.TLS
		if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
			config = config.Clone()
			config.ServerName = host
		}
		raw = tls.Client(raw, config)
	}
	made, err := rpc.NewConn(ctx, raw, &rpc.ConnOptions{
		Form: rpc.Raw, AwaitServer: true, Heartbeat: o.Heartbeat, Frame: &frame.Options{MaxFrame: wire.MaxFrame}, StreamBytes: streamBytes,
	})
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: made, opening: make(chan struct{}, 1), opened: map[string]broker.Namespace{}}
	if o.Secret != "" {
		c.metadata = []rpc.Pair{{Key: wire.SecretKey, Value: o.Secret}}
	}
	var reply wire.HelloReply
	hello := &wire.HelloRequest{Versions: []int{wire.Version}, Cluster: o.Cluster, Node: o.Node}
	if err := c.json(ctx, wire.Hello, hello, &reply); err != nil {
		_ = made.Close()
		return nil, wire.CallError(ctx, err)
	}
	o.Logger.Info("linked to a hub", "hub", address, "node", reply.Node)
	return c, nil
}

// streamBytes is how much of a stream may wait to be received.
const streamBytes = 1 << 20

func (c *conn) json(ctx context.Context, method string, in, out any) error {
	return c.Do(ctx, &rpc.Request{Method: method, Form: rpc.JSON, Metadata: c.metadata}, in, out)
}

// do makes a call, and returns the body of the answer.
func (c *conn) do(ctx context.Context, method string, body []byte) ([]byte, error) {
	var reply []byte
	err := c.Do(ctx, &rpc.Request{Method: method, Metadata: c.metadata}, body, &reply)
	return reply, err
}

func (c *conn) stream(ctx context.Context, method string, body []byte) (*rpc.Stream, error) {
	return c.Stream(ctx, &rpc.Request{Method: method, Metadata: c.metadata}, body)
}

// open opens a namespace at the hub, unless it is open with these settings.
func (c *conn) open(ctx context.Context, ns broker.Namespace) error {
	if c.isOpen(&ns) {
		return nil
	}
	select {
	case c.opening <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.opening }()
	if c.isOpen(&ns) {
		return nil
	}
	in := &wire.Namespace{Name: ns.Name, Mode: ns.Mode, History: ns.History, Partitions: ns.Partitions, Durable: ns.Durable}
	if err := c.json(ctx, wire.Open, in, nil); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[ns.Name] = ns
	return nil
}

func (c *conn) isOpen(ns *broker.Namespace) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened[ns.Name] == *ns
}

// load reads a channel from the hub.
func (c *conn) load(ctx context.Context, in *wire.LoadRequest, visit func(broker.Message) error) (broker.History, error) {
	stream, err := c.stream(ctx, wire.Load, in.Append(nil))
	if err != nil {
		return broker.History{}, err
	}
	defer stream.Close()
	var (
		d        wire.Decoder
		body     []byte
		messages []broker.Message
	)
	for {
		if err := stream.Receive(&body); err != nil {
			if errors.Is(err, io.EOF) {
				err = wire.ErrLayout // there was no History
			}
			return broker.History{}, err
		}
		var h *broker.History
		if messages, h, err = d.Load(body, messages[:0]); err != nil {
			return broker.History{}, err
		}
		for i := range messages {
			if err := visit(messages[i]); err != nil {
				return broker.History{}, err
			}
		}
		if h != nil {
			return *h, nil
		}
	}
}
