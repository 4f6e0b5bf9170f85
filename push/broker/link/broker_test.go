package link_test

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/pushtest"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hub is a hub in this process: a broker in memory, served to links. It can be ended and started again at the same address.
type hub struct {
	t       *testing.T
	options hublink.Options
	store   memory.Options
	address string
	broker  broker.Broker
	server  *hublink.Server
	served  chan error
}

func newHub(t *testing.T, o hublink.Options, store memory.Options) *hub {
	t.Helper()
	h := &hub{t: t, options: o, store: store, address: "127.0.0.1:0"}
	h.start()
	t.Cleanup(h.end)
	return h
}

// start begins with an empty store.
func (h *hub) start() {
	h.t.Helper()
	h.broker = memory.New(&h.store)
	h.serve()
}

// serve begins to serve links.
func (h *hub) serve() {
	h.t.Helper()
	ln, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = ln.Addr().String()
	h.server, h.served = hublink.NewServer(h.broker, &h.options), make(chan error, 1)
	server, served := h.server, h.served
	go func() { served <- server.Serve(ln) }()
}

// stop ends all links at once.
func (h *hub) stop() {
	if h.server != nil {
		_ = h.server.Close()
		_ = testwait.Receive(h.t, h.served)
		h.server = nil
	}
}

func (h *hub) end() {
	h.stop()
	_ = h.broker.Close()
}

// join returns a gateway's broker, which the caller closes.
func join(t *testing.T, o link.Options, hubs ...string) broker.Broker {
	t.Helper()
	o.Placement = link.Fixed(hubs)
	b, err := link.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The suite that every broker has to pass.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name string
		hub  hublink.Options
	}{
		{"", hublink.Options{}},
		{"little room for slow links", hublink.Options{QueueBytes: 6000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
				clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
				h := newHub(t, tt.hub, memory.Options{Now: clock.Now, MaxPublication: 100_000, Queue: 32, PublishWait: time.Second})
				p, err := network.Listen("", h.address, network.Conditions{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Close() })
				open := func() broker.Broker { return join(t, link.Options{}, p.Addr().String()) }
				again := func() {
					h.end()
					h.start()
				}
				return pushtest.Harness{
					Broker: open(), WantedOnly: true, Conflates: tt.hub.QueueBytes > 0, MaxPublication: 100_000, Advance: clock.Advance, Cut: func() { p.Reset(1) }, Replace: again,
					Recreate: func() broker.Broker {
						again()
						return open()
					},
				}
			})
		})
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
