package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Broker is a [broker.Broker] on JetStream. All methods may be called concurrently; after Close they return [broker.ErrClosed].
type Broker struct {
	opts Options // set at New
	host *host   // the embedded server; nil: external

	// Two connections: publications, control messages and leases on one; on the other what may be large and should not hold those
	// up: deliveries and loading.
	conn, reads *nats.Conn
	js          jetstream.JetStream // on conn
	readsJS     jetstream.JetStream // on reads

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // everything that Close waits for
	refused atomic.Uint64  // messages that followers left out
	full    atomic.Bool    // see broker.Stats

	mu         sync.RWMutex
	namespaces map[string]*namespace  // guarded by mu
	listeners  map[*listener]struct{} // guarded by mu
	closed     bool                   // guarded by mu
	back       chan struct{}          // guarded by mu: closed and replaced when the connection is there again
	ended      chan struct{}          // closed when Close has waited for everything
	poke       chan struct{}          // holds one when it is time to look after the server
}

// namespace is an open namespace. What is not in broker.Namespace.History never changes.
type namespace struct {
	broker.Namespace
	partitions []*partition
}

// New starts the embedded server or connects to the external one, and returns when it can be used; ctx bounds only that. The broker
// has to be closed. Without the server there is an error; once connected the broker waits for a server that is lost, for as long as
// it takes, and meanwhile its methods fail.
func New(ctx context.Context, opts *Options) (*Broker, error) {
	b := &Broker{
		opts:       opts.withDefaults(),
		namespaces: make(map[string]*namespace),
		listeners:  make(map[*listener]struct{}),
		ended:      make(chan struct{}),
		back:       make(chan struct{}),
		poke:       make(chan struct{}, 1),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.start(ctx); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("nats: %w", err)
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) error {
	var err error
	if b.opts.URL == "" {
		if b.host, err = startHost(&b.opts); err != nil {
			return err
		}
	}
	if b.conn, b.js, err = b.connect(ctx, "publish"); err != nil {
		return err
	}
	if b.reads, b.readsJS, err = b.connect(ctx, "read"); err != nil {
		return err
	}
	if _, err := b.js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("the server has no JetStream for us: %w", err)
	}
	if b.host != nil {
		if err := b.measure(ctx); err != nil {
			return err
		}
	}
	if err := b.watch(); err != nil {
		return err
	}
	b.running.Go(b.look)
	return nil
}

// clientName is what the names of our connections begin with.
const clientName = "sluice "

// connect makes a connection that comes back by itself and keeps nothing while it is lost.
func (b *Broker) connect(ctx context.Context, purpose string) (*nats.Conn, jetstream.JetStream, error) {
	options := []nats.Option{
		nats.Name(clientName + purpose),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 300*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if b.ctx.Err() == nil {
				b.opts.Logger.Warn("the connection to the broker is lost", "connection", purpose, "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.opts.Logger.Warn("the broker is there again", "connection", purpose)
			b.isBack()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.opts.Logger.Warn("the broker complains", "connection", purpose, "error", err)
		}),
	}
	if b.opts.Credentials != "" {
		options = append(options, nats.UserCredentials(b.opts.Credentials))
	}
	url := b.opts.URL
	if b.host != nil {
		url = ""
		options = append(options, nats.InProcessServer(b.host), nats.Token(b.host.token))
	}
	if deadline, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(max(time.Until(deadline), time.Millisecond)))
	}
	conn, err := nats.Connect(url, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", b.where(), err)
	}
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(1<<20), // the windows of the partitions are what bounds it
		jetstream.WithPublishAsyncTimeout(2*b.opts.Timeout),
		jetstream.WithDefaultTimeout(b.opts.Timeout))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// where says where the server is, without what is secret.
func (b *Broker) where() string {
	if b.host != nil {
		return "the embedded server"
	}
	var out []string
	for _, text := range strings.Split(b.opts.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil {
			return "the external server"
		}
		u.User = nil
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

// connections says which connections there are.
func (b *Broker) connections() sureness {
	return sureness{publish: b.conn.Stats().Reconnects, read: b.reads.Stats().Reconnects}
}

// isBack wakes who waits for the server.
func (b *Broker) isBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.back)
	b.back = make(chan struct{})
}

// whenBack returns a channel that is closed when a connection was made anew.
func (b *Broker) whenBack() <-chan struct{} {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.back
}

const (
	// lookEvery is how often partitions are looked after although nothing happened: another node may have found that a new life has
	// begun.
	lookEvery = 10 * time.Second
	// lookPause is how long nothing is looked after again, whatever happens.
	lookPause = 200 * time.Millisecond
	// noteEvery is how often it is noted how far the streams have come, and looked whether the data folder is there. What was acknowledged since
	// may be lost unseen, with the folder or by damage before the process is killed.
	noteEvery = 250 * time.Millisecond
)

// wake asks for the server and the partitions to be looked after.
func (b *Broker) wake() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// look looks after the server and all partitions: at intervals, when the server is there again, and when it refused something.
func (b *Broker) look() {
	ticker, notes, pause := time.NewTicker(lookEvery), time.NewTicker(noteEvery), time.NewTimer(0)
	defer ticker.Stop()
	defer notes.Stop()
	defer pause.Stop()
	for {
		back := b.whenBack()
		select {
		case <-back:
		case <-b.poke:
		case <-ticker.C:
		case <-notes.C:
			b.noteHeads()
			continue
		case <-b.ctx.Done():
			return
		}
		if b.host != nil {
			b.host.mend()
		}
		for _, p := range b.allPartitions() {
			if _, err := p.look(b.ctx); err != nil && b.ctx.Err() == nil {
				b.opts.Logger.Debug("a partition could not be looked after", "stream", p.stream, "error", err)
			}
		}
		b.noteHeads()
		pause.Reset(lookPause)
		select {
		case <-pause.C:
		case <-b.ctx.Done():
			return
		}
	}
}

// noteHeads keeps with the data of an embedded server how far its streams have come.
func (b *Broker) noteHeads() {
	if b.host == nil {
		return
	}
	heads := make(map[string]head)
	for _, p := range b.allPartitions() {
		p.mu.Lock()
		if p.ns.Durable && p.epoch != "" {
			heads[p.stream] = head{Created: p.created, Offset: p.known, Seen: p.seen, Absent: p.absent}
		}
		p.mu.Unlock()
	}
	b.host.check(heads)
}

func (b *Broker) allPartitions() []*partition {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []*partition
	for _, n := range b.namespaces {
		out = append(out, n.partitions...)
	}
	return out
}

// whyFailed says why an embedded server cannot write.
func (b *Broker) whyFailed() string { return b.host.whyFailed() }

// failure returns what is closed when an embedded server cannot write any more.
func (b *Broker) failure() <-chan struct{} {
	if b.host == nil {
		return nil
	}
	return b.host.failure()
}

// timed bounds a request to the server.
func (b *Broker) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.opts.Timeout)
}

// errReconnected says that an answer may have been lost with a connection.
var errReconnected = errors.New("the connection was made anew meanwhile")

// unlessBack bounds a request whose answer would not come any more once a connection has been made anew.
func (b *Broker) unlessBack(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := b.timed(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	back, done := b.whenBack(), ctx.Done()
	go func() { // ends when the caller cancels
		select {
		case <-back:
			cancel(errReconnected)
		case <-done:
		}
	}()
	return ctx, func() {
		cancel(nil)
		stop()
	}
}

// Publish stores p and returns when the server has acknowledged it. It waits for room in the partition's window, until ctx is done
// or for at most Options.PublishWait. Refusals, also for lack of space, and a server that is not there, are [broker.ErrBusy] and
// say why; then nothing was stored. Other errors leave that open: publishing again with the same idempotency key is safe.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, opts broker.PublishOptions) (push.Position, error) {
	part, err := b.partitionOf(ctx, channel)
	if err == nil {
		var at push.Position
		if at, err = part.publish(ctx, &broker.Message{Channel: channel, Publication: p}, opts.IdempotencyKey); err == nil {
			return at, nil
		}
	}
	return push.Position{}, fmt.Errorf("nats: publish to %q: %w", channel, err)
}

// Attach begins to deliver a partition to f, by a consumer of its own. It needs the server.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	part, err := b.partition(ctx, p)
	if err == nil {
		var a *attachment
		if a, err = part.attach(ctx, f); err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("nats: attach: %w", err)
}

// Load visits what is kept of a channel. It holds all of it in memory while it does, but no lock.
func (b *Broker) Load(ctx context.Context, channel string, visit func(push.Publication) error) (broker.History, error) {
	h, err := b.load(ctx, channel, visit)
	if err != nil {
		return broker.History{}, fmt.Errorf("nats: load %q: %w", channel, b.closedOr(err))
	}
	return h, nil
}

// Head asks the server for the partition's newest position; its offset is 0 before the first publication.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	part, err := b.partition(ctx, p)
	if err == nil {
		var at push.Position
		if at, err = part.look(ctx); err == nil {
			return at, nil
		}
	}
	return push.Position{}, fmt.Errorf("nats: head: %w", b.closedOr(err))
}

// closedOr returns err, or ErrClosed when that is why, or ErrBusy when nothing was asked for lack of a connection.
func (b *Broker) closedOr(err error) error {
	if b.ctx.Err() != nil && !errors.Is(err, broker.ErrClosed) {
		return broker.ErrClosed
	}
	if isUnconnected(err) {
		return fmt.Errorf("%w: no connection to %s", broker.ErrBusy, b.where())
	}
	return err
}

// isUnconnected reports whether an error says that a request was not sent for lack of a connection.
func isUnconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, errReconnected)
}

// forReads returns the connection to load through.
func (b *Broker) forReads() *nats.Conn {
	if !b.reads.IsConnected() && b.conn.IsConnected() { // which was faster to connect again
		return b.conn
	}
	return b.reads
}

// Close ends attachments and listeners, waits for them, and shuts the embedded server down: then the data folder is marked as
// complete. Calling it again waits for the same. It must not be called from a follower or a handler of control messages.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	var listeners []*listener
	for l := range b.listeners {
		listeners = append(listeners, l)
	}
	b.mu.Unlock()
	if !first {
		<-b.ended
		return nil
	}
	defer close(b.ended)
	for _, l := range listeners {
		l.stop()
	}
	b.cancel()
	for _, p := range b.allPartitions() {
		p.detachAll()
	}
	b.running.Wait()
	b.noteHeads()
	for _, c := range []*nats.Conn{b.conn, b.reads} {
		if c != nil {
			closeConn(c)
		}
	}
	if b.host != nil {
		if err := b.host.close(); err != nil {
			return fmt.Errorf("nats: close: %w", err)
		}
	}
	return nil
}

// closeConn closes a connection and waits until its goroutines have ended.
func closeConn(c *nats.Conn) {
	done := make(chan struct{})
	c.SetClosedHandler(func(*nats.Conn) { close(done) })
	c.Close()
	<-done
}

// partitionOf finds the partition of a channel.
func (b *Broker) partitionOf(ctx context.Context, channel string) (*partition, error) {
	n, err := b.namespace(ctx, push.Namespace(channel))
	if err != nil {
		return nil, err
	}
	return n.partitions[broker.PartitionOf(channel, len(n.partitions)).Index], nil
}

func (b *Broker) partition(ctx context.Context, p broker.Partition) (*partition, error) {
	n, err := b.namespace(ctx, p.Namespace)
	if err != nil {
		return nil, err
	}
	if p.Index < 0 || p.Index >= len(n.partitions) {
		return nil, fmt.Errorf("namespace %q has no partition %d, only %d in all", p.Namespace, p.Index, len(n.partitions))
	}
	return n.partitions[p.Index], nil
}

func (b *Broker) namespace(ctx context.Context, name string) (*namespace, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	n, ok := b.namespaces[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", broker.ErrUnknownNamespace, name)
	}
	return n, nil
}

// usable says why nothing can be done, if so.
func (b *Broker) usable(ctx context.Context) error {
	if b.ctx.Err() != nil {
		return broker.ErrClosed
	}
	return ctx.Err()
}
