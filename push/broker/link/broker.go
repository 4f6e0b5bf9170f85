package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
)

var _ broker.Broker = (*Broker)(nil)

// Options are the settings of a Broker. Placement is needed. For every number and duration zero means the default.
type Options struct {
	// Placement says which hubs there are.
	Placement Placement
	// Node is the ID of this gateway, for the logs of hubs. Cluster is the name of its cluster: hubs of another one refuse it.
	Node, Cluster string
	// Secret is what the hubs ask for.
	Secret string
	// TLS has links speak TLS. The name of a server is that of its address, unless ServerName is set. nil: they do not speak TLS.
	TLS *tls.Config
	// Connections is how many connections there are to a hub; default 2. All that concerns a partition uses one of them.
	Connections int
	// Timeout is how long an operation waits for a connection; default 5 s. In this time the next hubs are tried too: connecting to one hub may take
	// half of it.
	Timeout time.Duration
	// Heartbeat is for how long a connection may be silent before the hub is asked for a sign of life; default 2 s. If there is none, the connection
	// ends after the same time again.
	Heartbeat time.Duration
	// Logger gets links to hubs, hubs that cannot be reached, and streams that end or cannot be opened; nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	out := *o
	if out.Connections <= 0 {
		out.Connections = 2
	}
	if out.Timeout <= 0 {
		out.Timeout = 5 * time.Second
	}
	if out.Heartbeat <= 0 {
		out.Heartbeat = 2 * time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Broker is a broker.Broker that asks hubs. It is made by [New].
type Broker struct {
	options Options
	ctx     context.Context // done when Close begins
	cancel  context.CancelFunc
	table   broker.Table[broker.Partition]
	conns   conns
	running sync.WaitGroup // attachments, listeners, attempts to connect, and the one that watches the placement

	mu          sync.Mutex
	namespaces  map[string]broker.Namespace // guarded by mu: as they were opened last
	attachments map[*attachment]struct{}    // guarded by mu

	pending    atomic.Int64  // publications under way
	reconnects atomic.Uint64 // streams that were opened again
}

// New returns a Broker. It connects when it is used.
func New(o *Options) (*Broker, error) {
	if o == nil || o.Placement == nil {
		return nil, errors.New("link: a placement is needed, which says where the hubs are")
	}
	b := &Broker{options: o.withDefaults(), namespaces: map[string]broker.Namespace{}, attachments: map[*attachment]struct{}{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.conns = conns{broker: b, slots: map[slotKey]*slot{}, logged: map[string]bool{}}
	b.running.Go(b.watchPlacement)
	return b, nil
}

// watchPlacement moves attachments when the placement has changed.
func (b *Broker) watchPlacement() {
	for {
		changed := b.options.Placement.Changed()
		b.mu.Lock()
		for a := range b.attachments {
			a.reconsider()
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-b.ctx.Done():
			return
		}
	}
}

// Open implements broker.Broker. The namespace is also opened at each hub before it is used there.
func (b *Broker) Open(ctx context.Context, ns broker.Namespace) error {
	if err := b.table.Check(ctx, ns); err != nil {
		return err
	}
	at := broker.Partition{Namespace: ns.Name}
	err := b.call(ctx, at, true, func(ctx context.Context, c *conn) error { return c.open(ctx, ns) })
	if err != nil {
		return err
	}
	partitions := make([]broker.Partition, ns.Partitions)
	for i := range partitions {
		partitions[i] = broker.Partition{Namespace: ns.Name, Index: i}
	}
	if err := b.table.Open(ns, partitions, func(broker.Partition, push.History) {}); err != nil {
		return err
	}
	b.mu.Lock()
	b.namespaces[ns.Name] = ns
	b.mu.Unlock()
	return nil
}

// namespace returns the settings with which a namespace was opened.
func (b *Broker) namespace(name string) (broker.Namespace, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ns, ok := b.namespaces[name]
	return ns, ok
}

// Publish implements broker.Broker. If no hub could be reached, the error is broker.ErrBusy.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	part, err := b.table.Of(ctx, channel)
	if err != nil {
		return push.Position{}, err
	}
	body := wire.AppendPublish(nil, o.IdempotencyKey, &broker.Message{Channel: channel, Publication: p})
	if len(body) > wire.MaxFrame-wire.SpareBytes {
		return push.Position{}, broker.ErrTooLarge
	}
	b.pending.Add(1)
	defer b.pending.Add(-1)
	var at push.Position
	err = b.call(ctx, part, false, func(ctx context.Context, c *conn) error {
		reply, err := c.do(ctx, wire.Publish, body)
		if err == nil {
			at, err = wire.ParsePosition(reply)
		}
		return err
	})
	return at, err
}

// Head implements broker.Broker.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	part, err := b.table.At(ctx, p)
	if err != nil {
		return push.Position{}, err
	}
	var at push.Position
	err = b.call(ctx, part, true, func(ctx context.Context, c *conn) error {
		reply, err := c.do(ctx, wire.Head, wire.PartitionBody(part))
		if err == nil {
			at, err = wire.ParsePosition(reply)
		}
		return err
	})
	return at, err
}

// Load implements broker.Broker. A load that a broken connection interrupts after it has visited something fails; one that has not is made again.
func (b *Broker) Load(
	ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error,
) (broker.History, error) {
	part, err := b.table.Of(ctx, channel)
	if err != nil {
		return broker.History{}, err
	}
	var (
		h          broker.History
		failed     *visitError
		hasVisited = false
	)
	certain := b.certain(part)
	err = b.call(ctx, part, true, func(ctx context.Context, c *conn) error {
		if hasVisited {
			return errInterrupted
		}
		var err error
		h, err = c.load(ctx, &wire.LoadRequest{Channel: channel, Options: o}, func(m broker.Message) error {
			hasVisited = true
			if m.Retag > certain {
				m.Retag = m.Offset
			}
			if err := visit(m); err != nil {
				failed = &visitError{err}
				return failed
			}
			return nil
		})
		return err
	})
	if failed != nil {
		return h, failed
	}
	return h, err
}

// certain returns the offset up to which the followers of a partition, and their clients, know all tags that rows have had. Such a client has perhaps been told
// that it has everything up to a newer offset, see [attachment.certain]: if tags have changed in between, a load says that they change with the row's newest
// version.
func (b *Broker) certain(p broker.Partition) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	upTo := uint64(allCertain)
	for a := range b.attachments {
		if a.partition == p {
			upTo = min(upTo, a.certain.Load())
		}
	}
	return upTo
}

// errInterrupted means that a connection ended while a load was visiting publications.
var errInterrupted = errors.New("link: the connection ended during the load")

// visitError is the error of a visit function. It ends a load, and is no error of the connection.
type visitError struct{ err error }

func (e *visitError) Error() string { return fmt.Sprintf("visit: %v", e.err) }

func (e *visitError) Unwrap() error { return e.err }

// retryAfter is how long a call waits when no hub could be reached.
const retryAfter = 20 * time.Millisecond

// call calls f with a connection to the first hub of a partition that can be reached. It calls f again, for this or another hub, if the call was refused
// before it began, or if the connection was lost and again is set. The context of f is done when the broker closes.
func (b *Broker) call(ctx context.Context, p broker.Partition, again bool, f func(context.Context, *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.table.IsClosed() {
		return broker.ErrClosed
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	limit := time.NewTimer(b.options.Timeout)
	defer limit.Stop()
	hasBegun := false // an attempt that failed may have taken effect
	attempt := func(ctx context.Context, c *conn) error {
		err := f(ctx, c)
		hasBegun = hasBegun || err != nil && !isAway(err, false)
		return err
	}
	var last error // why the attempt before failed
	for {
		err := b.try(within, p, again, attempt)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && last != nil:
			return fmt.Errorf("%w: no hub can be reached: %w", ctx.Err(), last)
		case ctx.Err() != nil:
			return ctx.Err()
		case b.ctx.Err() != nil:
			return broker.ErrClosed
		case !isAway(err, again):
			return wire.CallError(ctx, err)
		}
		last = err
		retry := time.NewTimer(retryAfter)
		select {
		case <-retry.C:
		case <-limit.C:
			retry.Stop()
			if hasBegun {
				return fmt.Errorf("link: no hub can be reached any more: %w", err)
			}
			return fmt.Errorf("%w: no hub can be reached: %w", broker.ErrBusy, err)
		case <-within.Done():
			retry.Stop()
		}
	}
}

// errNoHub means that the placement has no hub for a partition.
var errNoHub = errors.New("link: no hub has the partition")

// try is one round over the hubs of a partition.
func (b *Broker) try(ctx context.Context, p broker.Partition, again bool, f func(context.Context, *conn) error) error {
	err := errNoHub
	for _, address := range b.options.Placement.Hubs(p) {
		var c *conn
		if c, err = b.conns.get(ctx, address, p); err == nil {
			err = f(ctx, c)
		}
		if err == nil || !isAway(err, again) {
			return err
		}
	}
	return err
}

// isAway reports whether an error says that a hub cannot be reached, so that another one may be asked. With again also a call that may have taken effect
// is made again.
func isAway(err error, again bool) bool {
	var (
		dial  *dialError
		visit *visitError
	)
	switch {
	case errors.As(err, &visit):
		return false
	case errors.As(err, &dial), errors.Is(err, errNoHub), rpc.Refused(err):
		return true
	}
	switch rpc.CodeOf(err) {
	case wire.CodeAway:
		return true
	case rpc.Lost, rpc.Canceled, wire.CodeNoStream: // a hub that ends cancels what is under way
		return again
	}
	return false
}

// Stats implements broker.Broker.
func (b *Broker) Stats() broker.Stats {
	return broker.Stats{
		Kind: "link", Connected: b.conns.isUp(), Reconnects: b.reconnects.Load(), Pending: int(b.pending.Load()),
	}
}

// Close implements broker.Broker.
func (b *Broker) Close() error {
	b.table.Close()
	b.mu.Lock() // nothing is started after that
	b.cancel()
	b.mu.Unlock()
	b.running.Wait()
	b.conns.close()
	return nil
}

// start runs f in a goroutine that Close waits for. It reports false if the broker is closed.
func (b *Broker) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.running.Go(f)
	return true
}
