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
	opts Options // immutable
	host *host   // the embedded server; nil: external

	// Publications, control messages and leases use one connection. Deliveries and loading, which may be large and must not hold up the others,
	// use a second one.
	conn, reads *nats.Conn
	js          jetstream.JetStream // on conn
	readsJS     jetstream.JetStream // on reads

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // everything that Close waits for
	refused atomic.Uint64  // messages that followers left out
	lost    atomic.Int64   // how many of the connections are lost
	full    atomic.Bool    // see broker.Stats

	reconnects atomic.Uint64 // how often a connection was made again

	partitions broker.Table[*partition]

	mu        sync.RWMutex
	listeners map[*listener]struct{} // guarded by mu
	back      chan struct{}          // guarded by mu: closed and replaced when a connection has been made again
	ended     chan struct{}          // closed when Close has waited for everything
	poke      chan struct{}          // holds one when look has to check the server and the partitions
}

// namespace is the configuration that the partitions of an open namespace share. It never changes; each partition has the present History.
type namespace struct{ broker.Namespace }

// New starts the embedded server or connects to the external one, and returns when the server can be used; ctx bounds only that. The caller has
// to close the broker. If the server cannot be reached, New returns an error. If a connection is lost later, the broker reconnects for as long
// as it takes, and meanwhile its methods fail.
func New(ctx context.Context, opts *Options) (*Broker, error) {
	b := &Broker{
		opts:      opts.withDefaults(),
		listeners: make(map[*listener]struct{}),
		ended:     make(chan struct{}),
		back:      make(chan struct{}),
		poke:      make(chan struct{}, 1),
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
		return fmt.Errorf("JetStream is not available on the server: %w", err)
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

// clientName is the beginning of the names of our connections.
const clientName = "sluice "

// connect makes a connection that reconnects by itself, and buffers nothing while it is lost. A connection to an external server over which nothing
// passes any more is lost after silence, as a consumer is. By default it would take minutes, in which Stats says that all is well.
func (b *Broker) connect(ctx context.Context, purpose string) (*nats.Conn, jetstream.JetStream, error) {
	options := []nats.Option{
		nats.Name(clientName + purpose),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 300*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			b.lost.Add(1)
			if b.ctx.Err() == nil {
				b.opts.Logger.Warn("broker connection lost", "connection", purpose, "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.reconnects.Add(1)
			b.lost.Add(-1)
			b.opts.Logger.Warn("broker connection restored", "connection", purpose)
			b.isBack()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.opts.Logger.Warn("broker connection error", "connection", purpose, "error", err)
		}),
	}
	if b.opts.Credentials != "" {
		options = append(options, nats.UserCredentials(b.opts.Credentials))
	}
	url := b.opts.URL
	if b.host != nil {
		url = ""
		options = append(options, nats.InProcessServer(b.host), nats.Token(b.host.token))
	} else {
		options = append(options, nats.PingInterval(heartbeat), nats.MaxPingsOutstanding(int(silence/heartbeat)-1),
			nats.FlusherTimeout(silence), nats.ReconnectOnFlusherError())
	}
	if deadline, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(max(time.Until(deadline), time.Millisecond)))
	}
	conn, err := nats.Connect(url, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", b.where(), err)
	}
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(1<<20), // the windows of the partitions bound it
		jetstream.WithPublishAsyncTimeout(2*b.opts.Timeout),
		jetstream.WithDefaultTimeout(b.opts.Timeout))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// where names the server for messages, without secrets.
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

// connections identifies the present connections, by how often each was made again.
func (b *Broker) connections() connState {
	return connState{publish: b.conn.Stats().Reconnects, read: b.reads.Stats().Reconnects}
}

// isBack wakes the goroutines that wait for the server.
func (b *Broker) isBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.back)
	b.back = make(chan struct{})
}

// whenBack returns a channel that is closed when a connection has been made again.
func (b *Broker) whenBack() <-chan struct{} {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.back
}

const (
	// lookEvery is the interval of checks of the partitions without another reason: another node may have changed the generation of a stream.
	lookEvery = 10 * time.Second
	// lookPause is the least time between two checks.
	lookPause = 200 * time.Millisecond
	// noteEvery is the interval at which the heads of the streams are noted, and the data folder is checked for existence. If the folder is
	// lost, or is damaged before the process is killed, publications acknowledged since the last note may be lost unnoticed.
	noteEvery = 250 * time.Millisecond
)

// wake asks look to check the server and the partitions.
func (b *Broker) wake() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// look checks the server and all partitions: at intervals, after a reconnect, and after the server has refused a request.
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
		for _, p := range b.partitions.All() {
			if _, err := p.look(b.ctx); err != nil && b.ctx.Err() == nil {
				b.opts.Logger.Debug("partition check failed", "stream", p.stream, "error", err)
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

// noteHeads stores the heads of the durable streams in the data folder of an embedded server.
func (b *Broker) noteHeads() {
	if b.host == nil {
		return
	}
	heads := make(map[string]head)
	for _, p := range b.partitions.All() {
		p.mu.Lock()
		if p.ns.Durable && p.epoch != "" {
			heads[p.stream] = head{Created: p.created, Offset: p.known, Seen: p.seen, Absent: p.absent}
		}
		p.mu.Unlock()
	}
	b.host.check(heads)
}

// whyFailed returns the reason why an embedded server cannot write.
func (b *Broker) whyFailed() string { return b.host.whyFailed() }

// failure returns a channel that is closed when an embedded server cannot write any more, nil for an external server.
func (b *Broker) failure() <-chan struct{} {
	if b.host == nil {
		return nil
	}
	return b.host.failure()
}

// timed returns a context for one request to the server, which ends after Options.Timeout.
func (b *Broker) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.opts.Timeout)
}

// errReconnected means that an answer may have been lost with a connection.
var errReconnected = errors.New("the connection was replaced during the request")

// unlessBack returns a context for one request, which also ends when a connection has been made again: the answer would not come any more.
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

// Publish stores p, and returns when the server has acknowledged it. It waits for room in the partition's window, until ctx is done or for at
// most Options.PublishWait. If the server refuses p, also for lack of space, or is not connected, the error is [broker.ErrBusy] and names the
// reason; nothing was stored then. After other errors p may be stored: publishing again with the same idempotency key is safe.
func (b *Broker) Publish(ctx context.Context, channel string, p push.Publication, opts broker.PublishOptions) (push.Position, error) {
	part, err := b.partitions.Of(ctx, channel)
	if err == nil {
		var at push.Position
		if at, err = part.publish(ctx, &broker.Message{Channel: channel, Publication: p}, opts.IdempotencyKey); err == nil {
			return at, nil
		}
	}
	return push.Position{}, fmt.Errorf("nats: publish to %q: %w", channel, err)
}

// Attach begins to deliver a partition to f through a consumer of its own. It needs the server.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	part, err := b.partitions.At(ctx, p)
	if err == nil {
		var a *attachment
		if a, err = part.attach(ctx, f); err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("nats: attach: %w", err)
}

// Load visits the stored publications of a channel. It first reads all of them into memory. No lock is held while visit runs.
func (b *Broker) Load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	h, err := b.load(ctx, channel, o, visit)
	if err != nil {
		return broker.History{}, fmt.Errorf("nats: load %q: %w", channel, b.closedOr(err))
	}
	return h, nil
}

// Head asks the server for the partition's newest position; its offset is 0 before the first publication.
func (b *Broker) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	part, err := b.partitions.At(ctx, p)
	if err == nil {
		var at push.Position
		if at, err = part.look(ctx); err == nil {
			return at, nil
		}
	}
	return push.Position{}, fmt.Errorf("nats: head: %w", b.closedOr(err))
}

// closedOr translates an error: to ErrClosed if the broker is closed, and to ErrBusy if the request was not sent for lack of a connection. It
// returns other errors as they are.
func (b *Broker) closedOr(err error) error {
	if b.ctx.Err() != nil && !errors.Is(err, broker.ErrClosed) {
		return broker.ErrClosed
	}
	if isUnconnected(err) {
		return fmt.Errorf("%w: no connection to %s", broker.ErrBusy, b.where())
	}
	return err
}

// isUnconnected reports whether an error means that a request was not sent for lack of a connection, or was cut off by a reconnect.
func isUnconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, errReconnected)
}

// forReads returns the connection for loading.
func (b *Broker) forReads() *nats.Conn {
	if !b.reads.IsConnected() && b.conn.IsConnected() { // it was faster to reconnect
		return b.conn
	}
	return b.reads
}

// Close ends attachments and listeners, waits for them, and shuts down the embedded server. Then it marks the data folder as complete. Another
// call waits for the same. A follower, or a handler of control messages, must not call it.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := b.partitions.Close()
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
	for _, p := range b.partitions.All() {
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

// usable returns the reason why the broker cannot be used, nil if it can.
func (b *Broker) usable(ctx context.Context) error {
	if b.ctx.Err() != nil {
		return broker.ErrClosed
	}
	return ctx.Err()
}
