package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/relay"
)

// newSource returns the source of a hub, closed before the hub.
func newSource(t testing.TB, h *hub.Hub) *relay.Broker {
	t.Helper()
	s := h.Source()
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// partitionOf is the partition of a channel in the namespaces of the tests.
func partitionOf(channel string) broker.Partition { return broker.PartitionOf(channel, 2) }

// loadAll loads a channel, and returns its publications as text.
func loadAll(ctx context.Context, b broker.Broker, channel string) (data []string, h broker.History, err error) {
	h, err = b.Load(ctx, channel, broker.LoadOptions{}, func(m broker.Message) error {
		data = append(data, string(m.Data))
		return nil
	})
	return data, h, err
}

func loads(t testing.TB, b broker.Broker, channel string, want ...string) broker.History {
	t.Helper()
	got, h, err := loadAll(testwait.Context(t), b, channel)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%q was loaded of %s, want %q", got, channel, want)
	}
	return h
}

// Many loads of a channel read it from the broker once, however many gateways ask. An unused channel leaves.
func TestSourceLoadsOnce(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 100}), &hub.Options{UnusedChannels: 3})
	b := newSource(t, h)
	for i := range 10 {
		publishN(t, h, fmt.Sprint("stream:", i), 0, 3)
	}
	begun, open := make(chan struct{}, 1), make(chan struct{})
	r.set(func(r *rig) {
		r.onLoad = func(ctx context.Context, _ string) error {
			select {
			case begun <- struct{}{}:
			default:
			}
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	before := r.loads.Load()
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { loads(t, b, "stream:0", "0", "1", "2") })
	}
	testwait.Receive(t, begun)
	close(open)
	all.Wait()
	loads(t, b, "stream:0", "0", "1", "2")
	if n := r.loads.Load() - before; n != 1 {
		t.Errorf("31 loads made the hub load %d times", n)
	}
	for i := range 10 {
		loads(t, b, fmt.Sprint("stream:", i), "0", "1", "2")
	}
	h.Sweep(time.Now())
	if n := h.Stats().Channels; n != 3 {
		t.Errorf("%d unused channels stay, want 3", n)
	}
	h.Sweep(time.Now().Add(2 * time.Minute))
	if n := h.Stats().Channels; n != 0 {
		t.Errorf("%d unused channels stay after their time", n)
	}
	loads(t, b, "stream:none")
	if n := h.Holds("stream:none"); n != -1 {
		t.Errorf("an empty channel stays, with %d holds", n)
	}
}

// A load waits while the channel is being loaded again after a gap, and gets the new log.
func TestSourceLoadDuringReload(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	const channel = "table:x"
	publish(t, h, channel, push.Publication{Key: "a", Data: []byte("a")})
	loads(t, b, channel, "a")
	begun, open := make(chan struct{}, 1), make(chan struct{})
	r.set(func(r *rig) {
		r.onLoad = func(context.Context, string) error {
			select {
			case begun <- struct{}{}:
			default:
			}
			<-open
			return nil
		}
	})
	r.lose()
	publish(t, h, channel, push.Publication{Key: "b", Data: []byte("b")})
	testwait.Receive(t, begun)
	r.keep()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { loads(t, b, channel, "a", "b") })
	}
	close(open)
	all.Wait()
}

// Loads end when the hub is closed, and everything fails from then on.
func TestSourceHubCloses(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	f := &noter{}
	a := attach(t, b, "stream:x", f)
	publishN(t, h, "stream:x", 0, 1)
	loads(t, b, "stream:x", "0")
	var begun atomic.Int32
	r.set(func(r *rig) {
		r.onLoad = func(ctx context.Context, _ string) error {
			begun.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
	})
	ended := make(chan error, 20)
	for i := range cap(ended) {
		go func() {
			_, _, err := loadAll(testwait.Context(t), b, fmt.Sprint("stream:other", i%4))
			ended <- err
		}()
	}
	testwait.True(t, "the loads have begun", func() bool { return begun.Load() == 4 })
	must(t, h.Close())
	for range cap(ended) {
		if err := testwait.Receive(t, ended); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("a load ended with %v, want ErrClosed", err)
		}
	}
	_, _, err := loadAll(t.Context(), b, "stream:x")
	_, published := b.Publish(t.Context(), "stream:x", push.Publication{}, broker.PublishOptions{})
	_, attached := b.Attach(t.Context(), partitionOf("stream:x"), f)
	for _, err := range []error{err, published, attached} {
		if !errors.Is(err, broker.ErrClosed) {
			t.Errorf("after the hub was closed: %v, want ErrClosed", err)
		}
	}
	a.Detach()
}

// Closing a source leaves the hub, its broker and its other sources as they are.
func TestSourceClose(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), nil)
	first, second := newSource(t, h), newSource(t, h)
	one, two := &noter{}, &noter{}
	attach(t, first, "stream:x", one)
	attach(t, second, "stream:x", two)
	must(t, first.Close())
	at := publishN(t, h, "stream:x", 0, 1)
	testwait.True(t, "the publication arrives", func() bool { return two.last() == at.Offset })
	loads(t, second, "stream:x", "0")
	if got := one.offsets(); len(got) > 0 {
		t.Errorf("%v came after Close", got)
	}
	if _, _, err := loadAll(t.Context(), first, "stream:x"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("load after Close: %v", err)
	}
}

// A stream that has forgotten entries because of the budget is loaded from the broker, until its history begins later.
func TestSourceBudget(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 4}), &hub.Options{LogBytes: 1})
	b := newSource(t, h)
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	publishN(t, h, "stream:x", 0, 4)
	loads(t, b, "stream:x", "0", "1", "2", "3")
	before := r.loads.Load()
	var budget hub.Budget
	budget.Enforce(h)
	loads(t, b, "stream:x", "0", "1", "2", "3")
	publishN(t, h, "stream:x", 4, 2)
	loads(t, b, "stream:x", "2", "3", "4", "5")
	if n := r.loads.Load() - before; n != 2 {
		t.Errorf("two loads of a stream that has forgotten entries made %d loads of the broker", n)
	}
	publishN(t, h, "stream:x", 6, 3)
	loads(t, b, "stream:x", "5", "6", "7", "8")
	if n := r.loads.Load() - before; n != 2 {
		t.Errorf("a stream that has its history again made %d more loads of the broker", n-2)
	}
}

// A load has what the broker had accepted when it was called, even if the hub is behind: a gateway may have got it from another hub.
func TestSourceIsBehind(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	publishN(t, h, "stream:x", 0, 1)
	loads(t, b, "stream:x", "0")
	release := r.hold()
	elsewhere := func(data string) {
		_, err := r.current().Publish(testwait.Context(t), "stream:x", push.Publication{Data: []byte(data)}, broker.PublishOptions{})
		must(t, err)
	}
	elsewhere("1")
	before := r.loads.Load()
	loads(t, b, "stream:x", "0", "1")
	if n := r.loads.Load() - before; n != 1 {
		t.Errorf("the broker was asked %d times by a hub that does not get on, want once", n)
	}
	release()
	elsewhere("2")
	loads(t, b, "stream:x", "0", "1", "2")
}

// A method of a follower may load, whether the channel is in memory or not.
func TestSourceLoadWithinFollower(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), nil)
	b := newSource(t, h)
	came := make(chan []string, 10)
	f := &noter{}
	f.onCall = func() {
		got, _, err := loadAll(testwait.Context(t), b, "stream:x")
		if err != nil {
			t.Error(err)
		}
		came <- got
	}
	attach(t, b, "stream:x", f)
	publishN(t, h, "stream:x", 0, 1)
	if got := testwait.Receive(t, came); !slices.Equal(got, []string{"0"}) {
		t.Errorf("%q was loaded on delivery of the first publication", got)
	}
	loads(t, b, "stream:x", "0")
	publishN(t, h, "stream:x", 1, 1)
	if got := testwait.Receive(t, came); !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("%q was loaded on delivery of the second publication", got)
	}
}

// Rows come with the offset at which their tags changed.
func TestSourceRetag(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), nil)
	b := newSource(t, h)
	loads(t, b, "table:x")
	c := newCarrier(t, open, false)
	subscribe(t, c.connect(h, client("a")), hub.SubscribeRequest{Channel: "table:x"})
	put := func(tag string) uint64 {
		return publish(t, h, "table:x", push.Publication{Key: "k", Tags: map[string]string{"t": tag}}).Offset
	}
	put("a")
	changed := put("b")
	newest := put("b")
	_, err := b.Load(testwait.Context(t), "table:x", broker.LoadOptions{}, func(m broker.Message) error {
		if m.Offset != newest || m.Retag != changed {
			t.Errorf("the row is at %d, retagged at %d, want %d and %d", m.Offset, m.Retag, newest, changed)
		}
		return nil
	})
	must(t, err)
}

// The broker's errors come as they are, and count in the hub.
func TestSourcePublish(t *testing.T) {
	r := newRig(t, &memory.Options{MaxPublication: 100})
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	ctx := testwait.Context(t)
	first, err := b.Publish(ctx, "stream:x", push.Publication{Data: []byte("1")}, broker.PublishOptions{IdempotencyKey: "k"})
	must(t, err)
	again, err := b.Publish(ctx, "stream:x", push.Publication{Data: []byte("2")}, broker.PublishOptions{IdempotencyKey: "k"})
	if err != nil || again != first {
		t.Errorf("the repetition is at %v, %v, want %v", again, err, first)
	}
	loads(t, b, "stream:x", "1")
	if _, err := b.Publish(ctx, "stream:x", push.Publication{Data: make([]byte, 200)}, broker.PublishOptions{}); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("publish too much: %v", err)
	}
	for _, want := range []error{broker.ErrBusy, errors.New("other")} {
		r.set(func(r *rig) { r.onPublish = want })
		if _, err := b.Publish(ctx, "stream:x", push.Publication{}, broker.PublishOptions{}); !errors.Is(err, want) {
			t.Errorf("publish: %v, want %v", err, want)
		}
	}
	if c := countsOf(t, h, "stream"); c.Published != 2 || c.TooLarge != 1 || c.Busy != 1 || c.Failed != 1 {
		t.Errorf("the hub counts %+v", c)
	}
}

// A namespace can be opened with the hub's settings only, apart from the history.
func TestSourceOpen(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	b := newSource(t, h)
	ns := broker.Namespace{Name: "stream", Mode: push.Stream, History: push.History{Size: 10}, Partitions: 2}
	must(t, b.Open(t.Context(), ns))
	must(t, b.Open(t.Context(), broker.Namespace{Name: "@sluice", Mode: push.Value, Partitions: 1})) // that of hubs themselves
	for name, change := range map[string]func(*broker.Namespace){
		"mode":       func(ns *broker.Namespace) { ns.Mode = push.Table },
		"partitions": func(ns *broker.Namespace) { ns.Partitions = 3 },
		"durable":    func(ns *broker.Namespace) { ns.Durable = true },
	} {
		other := ns
		change(&other)
		if err := b.Open(t.Context(), other); err == nil || errors.Is(err, broker.ErrUnknownNamespace) {
			t.Errorf("opened with another %s: %v", name, err)
		}
	}
	longer := ns
	longer.History.Size = 11
	must(t, b.Open(t.Context(), longer))
	ns.Name = "other"
	if err := b.Open(t.Context(), ns); !errors.Is(err, broker.ErrUnknownNamespace) {
		t.Errorf("opened a namespace that the hub does not have: %v", err)
	}
}
