package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/push/pushtest/network"
	"github.com/sluice-push/sluice/rpc"
)

// follower keeps what it gets of a stream.
type follower struct {
	mu       sync.Mutex
	messages []broker.Message
	upTo     uint64
	gaps     map[string]uint64
	resets   int
	hold     chan struct{} // nil, or closed when Deliver may go on
}

func (f *follower) Deliver(batch []broker.Message) {
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages = append(f.messages, batch...)
	f.upTo = batch[len(batch)-1].Offset
}

func (f *follower) Gap(channel string, offset uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gaps == nil {
		f.gaps = map[string]uint64{}
	}
	f.gaps[channel] = offset
}

func (f *follower) Advance(offset uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.upTo = offset
}

func (f *follower) Reset(push.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resets++
	f.messages = nil
}

// offsets returns the offsets of what came, and up to where.
func (f *follower) offsets() ([]uint64, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]uint64, len(f.messages))
	for i := range f.messages {
		out[i] = f.messages[i].Offset
	}
	return out, f.upTo
}

// reaches waits until a follower has been told everything up to an offset.
func (f *follower) reaches(t *testing.T, offset uint64) {
	t.Helper()
	testwait.True(t, fmt.Sprintf("it has everything up to %d", offset), func() bool {
		_, upTo := f.offsets()
		return upTo >= offset
	})
}

// attach opens the namespace n, and attaches a follower that wants channels of it.
func attach(t *testing.T, b broker.Broker, f broker.Follower, channels ...string) broker.Attachment {
	t.Helper()
	ctx := testwait.Context(t)
	open(t, b)
	a, err := b.Attach(ctx, broker.Partition{Namespace: "n"}, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range channels {
		if err := a.Want(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func open(t *testing.T, b broker.Broker) {
	t.Helper()
	if err := b.Open(testwait.Context(t), broker.Namespace{Name: "n", Partitions: 1, History: push.History{Size: 1000}}); err != nil {
		t.Fatal(err)
	}
}

// publish publishes to a broker n times, and returns the last offset.
func publish(t *testing.T, b broker.Broker, channel string, n int) (last uint64) {
	t.Helper()
	for i := range n {
		at, err := b.Publish(testwait.Context(t), channel, push.Publication{Data: fmt.Append(nil, i)}, broker.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = at.Offset
	}
	return last
}

func closes(t *testing.T, b broker.Broker) {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A gateway follows its partition from hub to hub: to the next one when its hub shuts down, and where the placement says, when that changes. Its follower
// gets everything once, and is told of neither a gap nor a reset.
func TestFromHubToHub(t *testing.T) {
	first := newHub(t, hublink.Options{}, memory.Options{})
	second := &hub{t: t, address: "127.0.0.1:0", broker: first.broker}
	second.serve()
	t.Cleanup(second.stop)
	p := &movable{changed: make(chan struct{})}
	p.set(first.address, second.address)
	b, err := link.New(&link.Options{Placement: p})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	f := &follower{}
	attach(t, b, f, "n:a")
	last := publish(t, b, "n:a", 10)
	f.reaches(t, last)
	links := func(h *hub) func() bool { return func() bool { return h.server.Links() > 0 } }

	p.set(second.address, first.address)
	testwait.True(t, "it goes to the second hub", links(second))
	last = publish(t, b, "n:a", 10)
	f.reaches(t, last)
	stopped := make(chan error, 1)
	go func() { stopped <- second.server.Shutdown(testwait.Context(t)) }()
	last = publish(t, b, "n:a", 10)
	if err := testwait.Receive(t, stopped); err != nil {
		t.Error(err)
	}
	f.reaches(t, last)
	second.stop()
	second.serve()
	first.stop()
	last = publish(t, first.broker, "n:a", 10) // through the link it would not be known whether they are stored
	f.reaches(t, last)
	first.serve()
	if got, _ := f.offsets(); len(got) != 40 || got[0] != 1 || got[39] != 40 || f.resets > 0 || len(f.gaps) > 0 {
		t.Errorf("it got %v, gaps %v, %d resets", got, f.gaps, f.resets)
	}
	if s := b.Stats(); s.Kind != "link" || !s.Connected || s.Reconnects == 0 {
		t.Errorf("%+v", s)
	}
}

// movable is a Placement that tests change.
type movable struct {
	mu      sync.Mutex
	hubs    []string
	changed chan struct{}
	asks    int // how often Changed was called
}

func (m *movable) set(hubs ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hubs = hubs
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *movable) Hubs(broker.Partition) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hubs
}

func (m *movable) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asks++
	return m.changed
}

func (m *movable) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks
}

// A gateway notices that a connection is half open, when neither end hears of the other, and gets on another one what it has missed.
func TestHalfOpen(t *testing.T) {
	h := newHub(t, hublink.Options{}, memory.Options{})
	p, err := network.Listen("", h.address, network.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	b := join(t, link.Options{Heartbeat: 50 * time.Millisecond}, p.Addr().String())
	closes(t, b)
	f := &follower{}
	attach(t, b, f, "n:a")
	f.reaches(t, publish(t, b, "n:a", 1))
	p.HalfOpen(1)
	last := publish(t, h.broker, "n:a", 5)
	f.reaches(t, last)
	if got, _ := f.offsets(); len(got) != 6 {
		t.Errorf("it got %v", got)
	}
}

// A gateway that does not read gets the history of what was left out. If the hub has that no more, the gap is told for its channel alone.
func TestSlowGateway(t *testing.T) {
	h := newHub(t, hublink.Options{QueueBytes: 1000}, memory.Options{})
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &follower{hold: make(chan struct{})}
	if err := b.Open(testwait.Context(t), broker.Namespace{Name: "n", Partitions: 1, History: push.History{Size: 30_000}}); err != nil {
		t.Fatal(err)
	}
	a, err := b.Attach(testwait.Context(t), broker.Partition{Namespace: "n"}, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"n:little", "n:much"} {
		if err := a.Want(testwait.Context(t), c); err != nil {
			t.Fatal(err)
		}
	}
	little := publish(t, h.broker, "n:little", 1)
	const large = 2000 // more than a stream may have on its way, and much more than the history
	for range large {
		data := push.Publication{Data: []byte(strings.Repeat("x", 2000))}
		if _, err := h.broker.Publish(testwait.Context(t), "n:much", data, broker.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ns := broker.Namespace{Name: "n", Partitions: 1, History: push.History{Size: 10}}
	if err := h.broker.Open(testwait.Context(t), ns); err != nil {
		t.Fatal(err)
	}
	last := publish(t, h.broker, "n:much", 1)
	close(f.hold)
	f.reaches(t, last)
	got, _ := f.offsets()
	if got[0] != little || got[len(got)-1] != last {
		t.Errorf("it got %d messages, from %d to %d", len(got), got[0], got[len(got)-1])
	}
	if f.gaps["n:much"] == 0 || f.gaps["n:little"] != 0 || f.gaps[""] != 0 || f.resets > 0 {
		t.Errorf("gaps %v, %d resets", f.gaps, f.resets)
	}
	for i := 1; i < len(got); i++ {
		if got[i] != got[i-1]+1 && got[i-1] > f.gaps["n:much"] {
			t.Errorf("%d came after %d", got[i], got[i-1])
		}
	}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// has waits until the log has all parts.
func (l *logged) has(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		testwait.True(t, "the log has "+part, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return strings.Contains(l.text.String(), part)
		})
	}
}

// Without the secret, or from another cluster, a gateway gets nothing, and its error says why. Both sides log it.
func TestRefused(t *testing.T) {
	atHub, atGateway := &logged{}, &logged{}
	h := newHub(t, hublink.Options{Secret: "right", Cluster: "a", Logger: slog.New(slog.NewTextHandler(atHub, nil))}, memory.Options{})
	for _, tt := range []struct {
		options link.Options
		want    string
	}{
		{link.Options{Secret: "wrong", Cluster: "a"}, "does not accept this secret"},
		{link.Options{Cluster: "a"}, "does not accept this secret"},
		{link.Options{Secret: "right", Cluster: "b"}, `belongs to cluster "a", the gateway to "b"`},
	} {
		tt.options.Timeout = 100 * time.Millisecond
		tt.options.Logger = slog.New(slog.NewTextHandler(atGateway, nil))
		b := join(t, tt.options, h.address)
		testwait.True(t, fmt.Sprintf("with %+v the error is %q", tt.options, tt.want), func() bool {
			err := b.Open(testwait.Context(t), broker.Namespace{Name: "n", Partitions: 1})
			if err == nil {
				t.Fatalf("%+v is accepted", tt.options)
			}
			return strings.Contains(err.Error(), tt.want)
		})
		_ = b.Close()
	}
	atHub.has(t, "a gateway is refused", "address=127.0.0.1:", "does not accept this secret")
	atGateway.has(t, "a hub cannot be reached", "hub="+h.address, "does not accept this secret")
	b := join(t, link.Options{Secret: "right", Cluster: "a", Node: "g", Logger: slog.New(slog.NewTextHandler(atGateway, nil))}, h.address)
	closes(t, b)
	open(t, b)
	atHub.has(t, "a gateway has connected", "node=g")
	atGateway.has(t, "linked to a hub")
}

// What no hub is reached for fails in time, and says that nothing was stored.
func TestNoHub(t *testing.T) {
	if _, err := link.New(&link.Options{}); err == nil {
		t.Error("no error without a placement")
	}
	h := newHub(t, hublink.Options{}, memory.Options{})
	b := join(t, link.Options{Timeout: 50 * time.Millisecond}, h.address)
	closes(t, b)
	openInTime(t, b)
	h.stop()
	testwait.True(t, "it knows that the connection has ended", func() bool { return !b.Stats().Connected })
	for what, f := range map[string]func(context.Context) error{
		"publish": func(ctx context.Context) error {
			_, err := b.Publish(ctx, "n:a", push.Publication{}, broker.PublishOptions{})
			return err
		},
		"attach": func(ctx context.Context) error {
			_, err := b.Attach(ctx, broker.Partition{Namespace: "n"}, &follower{})
			return err
		},
		"listen": func(ctx context.Context) error {
			_, err := b.Listen(ctx, "node", func([]byte) {})
			return err
		},
		"tell": func(ctx context.Context) error { return b.Tell(ctx, "", nil) },
	} {
		if err := f(testwait.Context(t)); !errors.Is(err, broker.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", what, err)
		}
	}
	h.serve()
	if b.Stats().Reconnects > 0 {
		t.Error("it has come back to something")
	}
	testwait.True(t, "the hub is reached again", func() bool {
		_, err := b.Publish(testwait.Context(t), "n:a", push.Publication{}, broker.PublishOptions{})
		return err == nil
	})
}

// openInTime opens the namespace n with a broker whose Timeout may be too short for a busy machine.
func openInTime(t *testing.T, b broker.Broker) {
	t.Helper()
	testwait.True(t, "the namespace is open", func() bool {
		return b.Open(testwait.Context(t), broker.Namespace{Name: "n", Partitions: 1}) == nil
	})
}

// A hub answers whatever bytes come with an error, and goes on.
func TestHostileGateway(t *testing.T) {
	h := newHub(t, hublink.Options{}, memory.Options{})
	c, err := rpc.Dial(testwait.Context(t), "tcp", h.address, &rpc.ConnOptions{Form: rpc.Raw})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(method string, body []byte) error {
		s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: method}, body)
		if err != nil {
			return err
		}
		defer s.Close()
		for {
			if err := s.Receive(nil); err != nil {
				return err
			}
		}
	}
	for _, method := range []string{
		wire.Publish, wire.Load, wire.Head, wire.Follow, wire.Interest, wire.Listen, wire.Tell, wire.PutLease, wire.DropLease, wire.ListLeases,
	} {
		for _, body := range [][]byte{nil, {0xff}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}} {
			if method == wire.PutLease && body == nil {
				continue
			}
			if err := call(method, body); rpc.CodeOf(err) != rpc.BadMessage {
				t.Errorf("%s with %x: %v", method, body, err)
			}
		}
	}
	publishBad := wire.AppendPublish(nil, "", &broker.Message{Channel: "n:\x00"})
	for method, body := range map[string][]byte{
		wire.Publish:  publishBad,
		wire.Load:     (&wire.LoadRequest{Channel: ""}).Append(nil),
		wire.Interest: (&wire.InterestRequest{ID: "made up", Want: []string{"n:a"}}).Append(nil),
		wire.Follow:   (&wire.FollowRequest{Partition: broker.Partition{Namespace: "n", Index: -1}}).Append(nil),
		wire.PutLease: nil,
	} {
		if err := call(method, body); err == nil || rpc.CodeOf(err) == rpc.Internal {
			t.Errorf("%s: %v", method, err)
		}
	}
	ns := &wire.Namespace{Name: "many", Partitions: 1 << 30}
	if err := c.Do(testwait.Context(t), &rpc.Request{Method: wire.Open, Form: rpc.JSON}, ns, nil); err == nil || rpc.CodeOf(err) == rpc.Internal {
		t.Errorf("very many partitions: %v", err)
	}
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	open(t, b)
	publish(t, b, "n:a", 1)
}

// A hub without a secret, and without certificates, serves no other machine.
func TestExposed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options hublink.Options
		served  bool
	}{
		{"nothing", hublink.Options{}, false},
		{"TLS of the hub only", hublink.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, false},
		{"a secret", hublink.Options{Secret: "s"}, true},
		{"certificates", hublink.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := hublink.NewServer(memory.New(nil), &tt.options)
			served := make(chan error, 1)
			go func() { served <- s.Serve(exposed{ln}) }()
			if tt.served {
				testwait.True(t, "it listens", func() bool {
					c, err := net.Dial("tcp", ln.Addr().String())
					if err == nil {
						_ = c.Close()
					}
					return err == nil
				})
				_ = s.Close()
			}
			if err := testwait.Receive(t, served); strings.Contains(err.Error(), "set a secret") == tt.served {
				t.Error(err)
			}
			_ = s.Close()
		})
	}
}

// exposed is a listener with an address that other machines reach.
type exposed struct{ net.Listener }

func (e exposed) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 1} }
