package relay_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/pushtest"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hubs is a broker behind hubs. The namespaces of a hub never change, and the suite opens some as it goes: so each has a hub of its own, which
// is replaced if the namespace gets another history.
type hubs struct {
	t     *testing.T
	store broker.Broker

	mu   sync.Mutex
	all  map[string]*behind // by namespace; that with the name none has none
	shut bool
}

var _ broker.Broker = (*hubs)(nil)

// behind is a hub with one namespace.
type behind struct {
	broker.Broker // the source of the hub
	hub           *hub.Hub
	settings      broker.Namespace
}

func newHubs(t *testing.T, store broker.Broker) *hubs {
	t.Helper()
	h := &hubs{t: t, store: store, all: make(map[string]*behind)}
	b, err := h.start(t.Context(), broker.Namespace{Name: none})
	if err != nil {
		t.Fatal(err)
	}
	h.all[none] = b
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func (h *hubs) start(ctx context.Context, ns broker.Namespace) (*behind, error) {
	var own []hub.Namespace
	if ns.Name != none {
		own = append(own, hub.Namespace{Namespace: ns})
	}
	of, err := hub.New(ctx, h.store, own, nil)
	if err != nil {
		return nil, err
	}
	return &behind{of.Source(), of, ns}, nil
}

func (b *behind) end(t *testing.T) {
	if err := b.Broker.Close(); err != nil {
		t.Errorf("close the source of a hub: %v", err)
	}
	if err := b.hub.Close(); err != nil {
		t.Errorf("close a hub: %v", err)
	}
}

// of returns the broker that has a namespace, or one that does not know it.
func (h *hubs) of(namespace string) broker.Broker {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.all[namespace]; b != nil {
		return b
	}
	return h.all[none]
}

// none stands for the hub without namespaces.
const none = "@none"

func (h *hubs) Open(ctx context.Context, ns broker.Namespace) error {
	if strings.HasPrefix(ns.Name, "@") { // of the hubs in a lower tier
		return h.of(none).Open(ctx, ns)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.store.Open(ctx, ns); err != nil {
		return err
	}
	b := h.all[ns.Name]
	if b != nil && b.settings == ns {
		return b.Open(ctx, ns)
	}
	if b != nil {
		same := b.settings
		same.History = ns.History
		if err := b.Open(ctx, ns); (err == nil) != (same == ns) {
			h.t.Errorf("open %+v with the settings %+v: %v", b.settings, ns, err)
		}
		b.end(h.t)
		delete(h.all, ns.Name)
	}
	b, err := h.start(ctx, ns)
	if err == nil {
		h.all[ns.Name] = b
	}
	return err
}

func (h *hubs) Publish(ctx context.Context, channel string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	return h.of(push.Namespace(channel)).Publish(ctx, channel, p, o)
}

func (h *hubs) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	return h.of(p.Namespace).Attach(ctx, p, f)
}

func (h *hubs) Load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	return h.of(push.Namespace(channel)).Load(ctx, channel, o, visit)
}

func (h *hubs) Head(ctx context.Context, p broker.Partition) (push.Position, error) {
	return h.of(p.Namespace).Head(ctx, p)
}

func (h *hubs) Listen(ctx context.Context, node string, handle func([]byte)) (func(), error) {
	return h.of(none).Listen(ctx, node, handle)
}

func (h *hubs) Tell(ctx context.Context, node string, payload []byte) error {
	return h.of(none).Tell(ctx, node, payload)
}

func (h *hubs) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	return h.of(none).PutLease(ctx, l, ttl)
}

func (h *hubs) DropLease(ctx context.Context, key string) error {
	return h.of(none).DropLease(ctx, key)
}

func (h *hubs) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	leases, err := h.of(none).ListLeases(ctx, prefix)
	own := leases[:0]
	for _, l := range leases { // the suite expects no leases of hubs, whose keys have an ID of 26 letters
		if len(l.Key) != len("node/")+26 {
			own = append(own, l)
		}
	}
	return own, err
}

func (h *hubs) Stats() broker.Stats { return h.of(none).Stats() }

func (h *hubs) Close() error {
	h.mu.Lock()
	all := h.all
	first := !h.shut
	h.shut = true
	h.mu.Unlock()
	if first {
		for _, b := range all {
			b.end(h.t)
		}
	}
	return h.store.Close()
}

// newStore returns an empty broker in memory.
func newStore() broker.Broker {
	return memory.New(&memory.Options{MaxPublication: 100_000, Queue: 32, PublishWait: time.Second})
}

// The suite that every broker has to pass.
func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
		return pushtest.Harness{Broker: newHubs(t, newStore()), HoldsUp: true, MaxPublication: 100_000}
	})
}

// linked is hubs that are served to links. They can be ended and started again at the same address.
type linked struct {
	t       *testing.T
	store   func() broker.Broker
	hubs    *hubs
	options hublink.Options
	address string
	server  *hublink.Server
	served  chan error
}

func newLinked(t *testing.T, o hublink.Options, store func() broker.Broker) *linked {
	t.Helper()
	l := &linked{t: t, store: store, options: o, address: "127.0.0.1:0"}
	l.start()
	t.Cleanup(l.end)
	return l
}

// start begins with an empty store.
func (l *linked) start() {
	l.t.Helper()
	l.hubs = newHubs(l.t, l.store())
	ln, err := net.Listen("tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.address = ln.Addr().String()
	l.server, l.served = hublink.NewServer(l.hubs, &l.options), make(chan error, 1)
	server, served := l.server, l.served
	go func() { served <- server.Serve(ln) }()
}

func (l *linked) end() {
	_ = l.server.Close()
	if l.served != nil {
		_ = testwait.Receive(l.t, l.served)
		l.served = nil
	}
	_ = l.hubs.Close()
}

// linkTo returns the broker of a gateway.
func linkTo(t *testing.T, address string) broker.Broker {
	b, err := link.New(&link.Options{Placement: link.Fixed{address}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The suite for gateways of hubs that are gateways themselves.
func TestConformanceOfTiers(t *testing.T) {
	t.Parallel()
	pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
		upper := newLinked(t, hublink.Options{}, newStore)
		p, err := network.Listen("", upper.address, network.Conditions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		lower := newLinked(t, hublink.Options{}, func() broker.Broker { return linkTo(t, p.Addr().String()) })
		return pushtest.Harness{
			Broker: linkTo(t, lower.address), WantedOnly: true, MaxPublication: 100_000, Cut: func() { p.Reset(1) },
		}
	})
}

// The suite again, for gateways that are linked to hubs.
func TestConformanceOfGateways(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		hub  hublink.Options
	}{
		{"", hublink.Options{}},
		{"little room for slow links", hublink.Options{QueueBytes: 6000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
				l := newLinked(t, tt.hub, newStore)
				p, err := network.Listen("", l.address, network.Conditions{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Close() })
				open := func() broker.Broker { return linkTo(t, p.Addr().String()) }
				again := func() {
					l.end()
					l.start()
				}
				return pushtest.Harness{
					Broker: open(), WantedOnly: true, Conflates: tt.hub.QueueBytes > 0, MaxPublication: 100_000,
					Cut: func() { p.Reset(1) }, Replace: again,
					Recreate: func() broker.Broker {
						again()
						return open()
					},
				}
			})
		})
	}
}
