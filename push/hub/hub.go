package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/seldom"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/alarm"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/presence"
	"github.com/sluice-push/sluice/timingwheel"
)

// Namespace is what a hub has to know of a namespace.
type Namespace struct {
	broker.Namespace
	// Presence keeps a lease for every subscription, so that it can be asked who is in a channel. Without it Presence answers
	// push.ErrNotAvailable.
	Presence bool
	// Interval is the shortest time between two services of a subscription that asks for none; 0: there is none.
	Interval time.Duration
	// MinInterval is the shortest that a subscription may ask for.
	MinInterval time.Duration
	// Priority says whose turn it is where a client cannot be sent everything, from 0, the lowest, to 9: see package pace.
	Priority int
	// Deltas are the forms in which clients may take publications as differences; see [SubscribeRequest].
	Deltas []push.Delta
	// Slow says what becomes of subscriptions that cannot be told everything any more because their clients are too slow. New refuses a
	// policy that the mode does not have.
	Slow push.Slow
}

// Options are a hub's settings; the zero value is usable.
type Options struct {
	// Name is the node's name for people; empty: its identity.
	Name string
	// Version is reported to those who ask for the nodes.
	Version string
	// Linger is how long an unused channel that holds something stays loaded; 0: a minute, negative: not at all.
	Linger time.Duration
	// UnusedChannels is how many of those stay at most, those that were used last; 0: 65,536, negative: no bound. It is looked at once a second.
	UnusedChannels int
	// LoadTimeout bounds loading a channel from the broker; 0: ten seconds.
	LoadTimeout time.Duration
	// PresenceTTL is how long a vanished node's clients stay present; 0: a minute.
	PresenceTTL time.Duration
	// SubscriptionsPerSession bounds a client; 0: 128, negative: no bound.
	SubscriptionsPerSession int
	// Workers is how many goroutines fan out; 0: as many as there are processors.
	Workers int
	// LogBytes bounds what the entries of all loaded channels count for together, as push.Publication.Size has it; 0: 1 GiB, negative:
	// no bound. Over it channels that nobody uses are given up, then the streams to which nothing was published for longest forget
	// their entries; rows of tables in use never. It is looked at once a second.
	LogBytes int64
	// Bandwidth is how many bytes a second a client is sent at most; 0: no bound.
	Bandwidth int64
	// Clock tells the time for intervals and bandwidth; nil: the system's.
	Clock timingwheel.Clock
	// Observer is told how long things take; the zero Observer of nothing.
	Observer Observer
	// Logger gets what happens to the hub as a whole; nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Linger == 0 {
		out.Linger = time.Minute
	}
	if out.UnusedChannels == 0 {
		out.UnusedChannels = 1 << 16
	}
	if out.LoadTimeout <= 0 {
		out.LoadTimeout = 10 * time.Second
	}
	if out.PresenceTTL <= 0 {
		out.PresenceTTL = time.Minute
	}
	if out.SubscriptionsPerSession == 0 {
		out.SubscriptionsPerSession = 128
	}
	if out.Workers <= 0 {
		out.Workers = runtime.GOMAXPROCS(0)
	}
	if out.LogBytes == 0 {
		out.LogBytes = 1 << 30
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Hub keeps channels and serves their subscribers. All methods may be called concurrently.
type Hub struct {
	// set at New
	options    Options
	broker     broker.Broker
	book       presence.Book // in broker
	id         string
	started    time.Time
	namespaces map[string]*namespace
	loading    chan struct{} // a token for each load under way
	workers    *workers
	alarms     *alarm.Clock[*Session]
	orders     orders
	ctx        context.Context // ends with Close; bounds what the hub does on its own account
	cancel     context.CancelFunc
	observer   *Observer                       // nil when nothing is observed
	running    sync.WaitGroup                  // janitor, renewer, loads, and what is told the broker late
	usual      [2][1 + push.Deltas]particulars // of subscriptions without a view and presence, by numbered and delta
	loaded     atomic.Uint32                   // topics since New
	stopListen func()
	ended      chan struct{} // closed when Close is through

	mu        sync.Mutex // guards what follows
	sessions  map[string]*Session
	connected uint32 // sessions since New
	closed    bool

	stats hubCounters

	busyWarnings, presenceWarnings seldom.Warning
}

type namespace struct {
	Namespace
	policy     channel.Policy
	partitions []*partition // complete when New returns
	counts     counters
}

// New opens the namespaces at the broker and begins to follow their partitions. The broker stays the caller's, who closes it after
// the hub.
func New(ctx context.Context, b broker.Broker, namespaces []Namespace, o *Options) (*Hub, error) {
	h := &Hub{
		options:    o.withDefaults(),
		broker:     b,
		id:         rand.Text(),
		started:    time.Now(),
		namespaces: map[string]*namespace{},
		loading:    make(chan struct{}, 64),
		sessions:   map[string]*Session{},
		ended:      make(chan struct{}),
	}
	for i := range h.usual {
		for form := range h.usual[i] {
			h.usual[i][form] = particulars{numbered: i == 1, delta: push.Delta(form)} //nolint:gosec // a few
		}
	}
	if h.options.Name == "" {
		h.options.Name = h.id
	}
	if o := &h.options.Observer; o.Passed != nil || o.Delivered != nil {
		h.observer = o
	}
	h.book = presence.Book{Leases: b, TTL: h.options.PresenceTTL}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.workers = newWorkers(h.options.Workers)
	h.alarms = alarm.New(h.options.Clock, (*Session).wakeLater)
	probe := Namespace{Namespace: broker.Namespace{Name: probeNamespace, Mode: push.Value, Partitions: 1}}
	for _, ns := range append([]Namespace{probe}, namespaces...) {
		if err := h.open(ctx, ns); err != nil {
			h.release()
			return nil, fmt.Errorf("hub: namespace %q: %w", ns.Name, err)
		}
	}
	if err := h.announce(ctx); err != nil {
		h.release()
		return nil, fmt.Errorf("hub: announce the node: %w", err)
	}
	stop, err := b.Listen(ctx, h.id, h.control)
	if err != nil {
		h.release()
		return nil, fmt.Errorf("hub: listen for control messages: %w", err)
	}
	h.stopListen = stop
	h.running.Go(h.janitor)
	h.running.Go(h.renewer)
	return h, nil
}

func (h *Hub) open(ctx context.Context, ns Namespace) error {
	if _, ok := h.namespaces[ns.Name]; ok {
		return errors.New("configured twice")
	}
	slow, err := ns.Slow.In(ns.Mode)
	if err != nil {
		return err
	}
	ns.Slow, ns.Partitions = slow, max(ns.Partitions, 1)
	if err := h.broker.Open(ctx, ns.Namespace); err != nil {
		return err
	}
	n := &namespace{Namespace: ns, policy: channel.Policy{Mode: ns.Mode, History: ns.History, Spare: spare}}
	h.namespaces[ns.Name] = n
	for i := range ns.Partitions {
		p := newPartition(h, n, broker.Partition{Namespace: ns.Name, Index: i})
		if err := p.attach(ctx); err != nil {
			return err
		}
		n.partitions = append(n.partitions, p)
	}
	return nil
}

// ID returns the identity of the node, new with every hub.
func (h *Hub) ID() string { return h.id }

// closeTimeout bounds what Close tells the broker of the sessions it ends: their leases vanish by themselves.
const closeTimeout = 5 * time.Second

// Close ends all sessions, asking their clients to connect again, and releases everything the hub holds: it returns when none of
// the hub's goroutines is left. Calling it again waits for the same. It must not be called from a Carrier or an answer to Subscribe.
//
// Afterwards Connect, and whatever needs a channel, answers an internal error.
func (h *Hub) Close() error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if !first {
		<-h.ended
		return nil
	}
	defer close(h.ended)
	sessions := h.list() // no more come
	for _, s := range sessions {
		s.Disconnect(push.DisconnectShutdown)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, s := range sessions {
		s.close(ctx)
	}
	h.release()
	return nil
}

// release ends all that New began.
func (h *Hub) release() {
	h.cancel()
	if h.stopListen != nil {
		h.stopListen()
	}
	for _, n := range h.namespaces {
		for _, p := range n.partitions {
			p.attachment.Detach()
			p.mu.Lock()   // whoever began work under it before the cancel has by now
			p.mu.Unlock() //nolint:staticcheck // see above
		}
	}
	h.running.Wait()
	h.alarms.Close()
	h.workers.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.book.Retire(ctx, h.id) // it would vanish by itself
}

// namespaceOf returns the namespace of a channel, or push.ErrUnknownChannel, which it is for callers if it belongs to the hub itself.
func (h *Hub) namespaceOf(name string) (*namespace, error) {
	if err := push.CheckChannel(name); err != nil {
		return nil, push.ErrBadRequest.WithMessage("%v", err)
	}
	if n := h.namespaces[push.Namespace(name)]; n != nil && n.Name != probeNamespace {
		return n, nil
	}
	return nil, push.UnknownChannel(name)
}

func (n *namespace) partition(name string) *partition {
	return n.partitions[broker.PartitionOf(name, len(n.partitions)).Index]
}

// Publish stores a publication in a channel and returns its position once the broker has accepted it. What p refers to must not be
// changed afterwards. With an idempotency key, a repetition within the broker's window answers the first position.
//
// Errors are *push.Error: unknown channel, bad request, limit exceeded (larger than the broker stores), too many requests (nothing
// was stored, try again), internal (it is not known whether it was stored; repeating it with the same idempotency key is safe).
func (h *Hub) Publish(ctx context.Context, name string, p push.Publication, idempotencyKey string) (push.Position, error) {
	n, err := h.namespaceOf(name)
	if err != nil {
		return push.Position{}, err
	}
	if err := push.CheckPublication(&p, idempotencyKey); err != nil {
		return push.Position{}, err
	}
	if p.Op != push.Set && n.Mode == push.Stream {
		return push.Position{}, push.ErrBadRequest.WithMessage("channels of namespace %q are streams: nothing can be removed from them", n.Name)
	}
	return h.publish(ctx, n, name, p, idempotencyKey)
}

// publish is Publish for a channel of n and a publication that it takes.
func (h *Hub) publish(ctx context.Context, n *namespace, name string, p push.Publication, idempotencyKey string) (push.Position, error) {
	at, err := h.broker.Publish(ctx, name, p, broker.PublishOptions{IdempotencyKey: idempotencyKey})
	if err != nil {
		return push.Position{}, h.publishError(&n.counts, name, err)
	}
	n.counts.published.Add(1)
	n.partition(name).acknowledged(at)
	return at, nil
}

// publishError counts an error of the broker and says what becomes of it.
func (h *Hub) publishError(c *counters, name string, err error) error {
	switch {
	case errors.Is(err, broker.ErrBusy):
		c.busy.Add(1)
		h.warnBusy(name, err)
		return push.ErrTooManyRequests.WithMessage("the broker takes nothing more for now, try again later")
	case errors.Is(err, broker.ErrTooLarge):
		c.tooLarge.Add(1)
		return push.ErrLimitExceeded.WithMessage("the publication is larger than the broker stores")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.failed.Add(1)
		return push.ErrInternal.WithMessage("the broker did not answer in time")
	default:
		c.failed.Add(1)
		h.options.Logger.Error("publish failed", "channel", name, "error", err)
		return push.ErrInternal
	}
}

// warnBusy tells the operator why the broker refuses, which is not for clients to know.
func (h *Hub) warnBusy(name string, err error) {
	if h.busyWarnings.Due(time.Now()) {
		h.options.Logger.Warn("the broker refuses publications", "channel", name, "error", err)
	}
}
