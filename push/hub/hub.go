package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub/counters"
	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/push/presence"
	"github.com/sluice-push/sluice/push/timers"
	"github.com/sluice-push/sluice/timingwheel"
)

// Namespace is a hub's configuration of a namespace, which is a group of channels with the same settings.
type Namespace struct {
	broker.Namespace
	// Presence keeps a lease for every subscription, from which [Hub.Presence] lists the clients of a channel. Without it, that method
	// returns push.ErrNotAvailable.
	Presence bool
	// JoinLeave announces the beginning and the end of every subscription to the subscriptions, on all nodes, that ask for it.
	JoinLeave bool
	// Interval is the shortest time between two updates of a subscription that asks for no interval; 0: no bound.
	Interval time.Duration
	// MinInterval is the shortest interval that a subscription may have.
	MinInterval time.Duration
	// Priority orders the subscriptions of a client that cannot be sent everything, from 0, the lowest, to 9: see package pace.
	Priority int
	// Deltas are the forms in which clients may take publications as differences; see [SubscribeRequest].
	Deltas []push.Delta
	// Slow is the policy for subscriptions whose clients are so slow that publications are gone before they were sent. New returns an error if
	// the namespace's mode does not have the policy.
	Slow push.Slow
}

// Options are a hub's settings; the zero value is usable.
type Options struct {
	// Name is the node's name for people; empty: its identity.
	Name string
	// Version is the node's software version, which [Hub.Nodes] reports.
	Version string
	// Linger is how long an unused channel with entries stays loaded; 0: a minute, negative: not at all.
	Linger time.Duration
	// UnusedChannels is how many unused channels stay loaded at most, the ones that were used last; 0: 65,536, negative: no bound. The janitor
	// enforces it about once a second.
	UnusedChannels int
	// LoadTimeout bounds the time to load a channel from the broker; 0: ten seconds.
	LoadTimeout time.Duration
	// PresenceTTL is for how long the broker keeps a client whose lease is not renewed; 0: a minute. Clients of a node that is down are not listed.
	PresenceTTL time.Duration
	// SubscriptionsPerSession is how many subscriptions a session may have; 0: 128, negative: no bound.
	SubscriptionsPerSession int
	// Exceeded is called when SubscriptionsPerSession is exceeded, and must not call the hub; nil is not called. If DrySubscriptions is true, the
	// session gets the subscription nevertheless.
	Exceeded         func(push.ClientInfo)
	DrySubscriptions bool
	// Workers is the number of goroutines for fan-out; 0: GOMAXPROCS.
	Workers int
	// LogBytes bounds the size of all loaded logs together, as channel.Log.Bytes counts it; 0: 1 GiB, negative: no bound. If the logs are larger,
	// unused channels are dropped first. Then the streams whose newest entry is oldest forget their entries. Rows of tables in use are always
	// kept. The janitor enforces the bound about once a second.
	LogBytes int64
	// Bandwidth is how many bytes of publications a client is sent per second at most; 0: no bound.
	Bandwidth int64
	// Clock is the time source for intervals and bandwidth; nil: the system's.
	Clock timingwheel.Clock
	// Observer gets the durations of fan-out and the ages of deliveries; the zero Observer gets none.
	Observer Observer
	// Logger gets events of the hub as a whole; nil discards them.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Exceeded == nil {
		out.Exceeded = func(push.ClientInfo) {}
	}
	out.Linger = cmp.Or(out.Linger, time.Minute)
	out.UnusedChannels = cmp.Or(out.UnusedChannels, 1<<16)
	out.LoadTimeout = cmp.Or(max(out.LoadTimeout, 0), 10*time.Second)
	out.PresenceTTL = cmp.Or(max(out.PresenceTTL, 0), time.Minute)
	out.SubscriptionsPerSession = cmp.Or(out.SubscriptionsPerSession, 128)
	if out.Workers <= 0 {
		out.Workers = runtime.GOMAXPROCS(0)
	}
	out.LogBytes = cmp.Or(out.LogBytes, 1<<30)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Hub keeps channels in memory and fans their publications out to its sessions. All methods may be called concurrently.
type Hub struct {
	// Set by New.
	options        Options
	broker         broker.Broker
	presence       presence.Registry // in broker
	id             string
	started        time.Time
	namespaces     map[string]*namespace
	loading        chan struct{} // a token for each load under way
	workers        *workers
	timers         *timers.Scheduler[*Session]
	changes        pace.Changes[*Session, *Subscription]
	ctx            context.Context // ends with Close; bounds the work of the hub's own goroutines
	cancel         context.CancelFunc
	observer       *Observer                       // nil when nothing is observed
	running        sync.WaitGroup                  // janitor, renewer, loads, and the removal of leases (absentLater)
	commonSettings [2][1 + push.Deltas]subSettings // of subscriptions without a view and presence, by numbered and delta
	loaded         atomic.Uint32                   // topics made since New
	stopListen     func()
	receiver       atomic.Pointer[func(message []byte)] // of ReceiveNode
	ended          chan struct{}                        // closed when Close has ended

	mu        sync.Mutex // guards sessions, connected and closed
	sessions  map[string]*Session
	connected uint32 // sessions since New
	closed    bool

	stats hubCounters

	busyWarnings, presenceWarnings logsample.Warning
}

type namespace struct {
	Namespace
	policy     channel.Policy
	partitions []*partition      // complete when New returns
	counts     counters.Counters // a goroutine adds to Delivered once a quantum, not once a delivery
}

// New returns a hub. It opens the namespaces at the broker and begins to follow their partitions. The broker remains the caller's; the caller
// closes it after the hub.
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
	for i := range h.commonSettings {
		for form := range h.commonSettings[i] {
			h.commonSettings[i][form] = subSettings{numbered: i == 1, delta: push.Delta(form)} //nolint:gosec // a few
		}
	}
	if h.options.Name == "" {
		h.options.Name = h.id
	}
	if o := &h.options.Observer; o.BatchDone != nil || o.Delivered != nil {
		h.observer = o
	}
	h.presence.Leases, h.presence.Node, h.presence.TTL = b, h.id, h.options.PresenceTTL
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.workers = newWorkers(h.options.Workers)
	h.timers = timers.New(h.options.Clock, (*Session).wakeByWorker)
	probe := Namespace{Namespace: broker.Namespace{Name: probeNamespace, Mode: push.Value, Partitions: 1}}
	own := []Namespace{probe}
	if slices.ContainsFunc(namespaces, func(n Namespace) bool { return n.JoinLeave }) {
		own = append(own, Namespace{Namespace: broker.Namespace{Name: presence.EventNamespace, History: joinsHistory, Partitions: 1}})
	}
	for _, ns := range append(own, namespaces...) {
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
	h.running.Go(func() { h.presence.Beat(h.ctx) })
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
	n := &namespace{Namespace: ns, policy: channel.Policy{Mode: ns.Mode, History: ns.History, Allowance: allowance}}
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

// ID returns the identity of the node. Every hub has a new one.
func (h *Hub) ID() string { return h.id }

// closeTimeout bounds the time in which Close removes the leases of its sessions. Leases that remain expire by themselves.
const closeTimeout = 5 * time.Second

// Close disconnects all sessions, whose clients are asked to connect again, and releases everything that the hub holds. It returns when the
// hub's goroutines have ended. A second call waits for the first. Close must not be called from a Carrier or an answer to Subscribe.
//
// Afterwards Connect, and every method that needs a channel, returns an internal error.
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
	sessions := h.list() // complete: Connect refuses new ones now
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

// release ends all goroutines that New started.
func (h *Hub) release() {
	h.cancel()
	if h.stopListen != nil {
		h.stopListen()
	}
	for _, n := range h.namespaces {
		for _, p := range n.partitions {
			p.attachment.Detach()
			p.mu.Lock()   // goroutines that are started under it see the cancel, or are in h.running by now
			p.mu.Unlock() //nolint:staticcheck // see above
		}
	}
	h.running.Wait()
	h.timers.Close()
	h.workers.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.presence.Retire(ctx) // if it fails, the node's lease expires by itself
}

// namespaceOf returns the namespace of a channel, or push.ErrUnknownChannel. The hub's own channels are unknown to callers.
func (h *Hub) namespaceOf(name string) (*namespace, error) {
	if err := push.CheckChannel(name); err != nil {
		return nil, push.ErrBadRequest.WithMessage("%v", err)
	}
	if n := h.namespaces[push.Namespace(name)]; n != nil && n.Name != probeNamespace && n.Name != presence.EventNamespace {
		return n, nil
	}
	return nil, push.UnknownChannel(name)
}

// isReserved reports whether a namespace is one of the nodes themselves, which figures leave out. A configuration cannot name it.
func isReserved(namespace string) bool { return strings.HasPrefix(namespace, "@") }

func (n *namespace) partition(name string) *partition {
	return n.partitions[broker.PartitionOf(name, len(n.partitions)).Index]
}

func (n *namespace) acquire(ctx context.Context, name string) (*topic, error) {
	return n.partition(name).acquire(ctx, name)
}

// Publish stores a publication in a channel, and returns its position once the broker has accepted it. The caller must not change the memory
// that p refers to afterwards. With an idempotency key, a repetition within the broker's window returns the position of the first call.
//
// Errors are *push.Error: unknown channel, bad request, limit exceeded (the publication is larger than the broker stores), too many requests
// (nothing was stored, try again), internal (it is not known whether the publication was stored; repeating it with the same
// idempotency key is safe).
func (h *Hub) Publish(ctx context.Context, name string, p push.Publication, idempotencyKey string) (push.Position, error) {
	n, err := h.namespaceOf(name)
	if err != nil {
		return push.Position{}, err
	}
	if err := push.CheckPublication(&p, idempotencyKey); err != nil {
		return push.Position{}, err
	}
	if p.Op != push.Set && n.Mode == push.Stream {
		return push.Position{}, push.ErrBadRequest.WithMessage("namespace %q has mode stream: rows can be removed only from values and tables", n.Name)
	}
	return h.publish(ctx, n, name, p, idempotencyKey)
}

// publish is Publish for a channel of n and a publication that was checked.
func (h *Hub) publish(ctx context.Context, n *namespace, name string, p push.Publication, idempotencyKey string) (push.Position, error) {
	at, err := n.partition(name).store(ctx, name, p, broker.PublishOptions{IdempotencyKey: idempotencyKey})
	if err != nil {
		return push.Position{}, h.publishError(&n.counts, name, err)
	}
	return at, nil
}

// store publishes to a channel of the partition. The error is that of the broker.
func (p *partition) store(ctx context.Context, name string, pub push.Publication, o broker.PublishOptions) (push.Position, error) {
	at, err := p.hub.broker.Publish(ctx, name, pub, o)
	if err == nil {
		p.namespace.counts.Published.Add(1)
		p.acknowledged(at)
	}
	return at, err
}

// publishError counts an error of the broker, and returns the error for the caller of Publish.
func (h *Hub) publishError(c *counters.Counters, name string, err error) error {
	switch {
	case errors.Is(err, broker.ErrBusy):
		c.Busy.Add(1)
		h.warnBusy(name, err)
		return push.ErrTooManyRequests.WithMessage("the broker accepts no publications now, try again later")
	case errors.Is(err, broker.ErrTooLarge):
		c.TooLarge.Add(1)
		return push.ErrLimitExceeded.WithMessage("the publication exceeds the broker's size limit")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.Failed.Add(1)
		return push.ErrInternal.WithMessage("the broker did not answer in time")
	default:
		c.Failed.Add(1)
		h.options.Logger.Error("publish failed", "channel", name, "error", err)
		return push.ErrInternal
	}
}

// warnBusy logs why the broker refuses publications. The reason is for the operator; clients do not get it.
func (h *Hub) warnBusy(name string, err error) {
	if h.busyWarnings.Due(time.Now()) {
		h.options.Logger.Warn("publication refused by the broker", "channel", name, "error", err)
	}
}
