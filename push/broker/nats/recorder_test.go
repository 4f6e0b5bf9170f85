package nats_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

// recorder is a follower that records its messages.
type recorder struct {
	mu       sync.Mutex
	messages []broker.Message
	gaps     []uint64
	resets   []push.Position
	changed  chan struct{} // closed and replaced with each change
	gate     chan struct{} // nil, or closed when Deliver may continue
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Deliver implements broker.Follower.
func (r *recorder) Deliver(batch []broker.Message) {
	if r.gate != nil {
		<-r.gate
	}
	r.change(func() { r.messages = append(r.messages, batch...) })
}

// Gap implements broker.Follower.
func (r *recorder) Gap(_ string, offset uint64) { r.change(func() { r.gaps = append(r.gaps, offset) }) }

// Advance implements broker.Follower.
func (r *recorder) Advance(uint64) {}

// Reset implements broker.Follower.
func (r *recorder) Reset(start push.Position) {
	r.change(func() { r.resets = append(r.resets, start) })
}

// data returns the data of all messages.
func (r *recorder) data() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for i := range r.messages {
		out = append(out, string(r.messages[i].Data))
	}
	return out
}

// await waits until a condition on the records holds.
func (r *recorder) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timer := time.NewTimer(pushtest.Patience)
	defer timer.Stop()
	for {
		r.mu.Lock()
		isSo, changed := holds(), r.changed
		r.mu.Unlock()
		if isSo {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			t.Fatalf("%s: it never came to that", what)
		}
	}
}

// awaitData waits until a message with the given data was delivered.
func (r *recorder) awaitData(t *testing.T, data string) {
	t.Helper()
	r.await(t, "a message "+data, func() bool {
		return slices.ContainsFunc(r.messages, func(m broker.Message) bool { return string(m.Data) == data })
	})
}

// closing closes a broker at the end of a test.
func closing(t *testing.T, b *nats.Broker) *nats.Broker {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// openNamespace opens a durable namespace of one partition.
func openNamespace(t *testing.T, b *nats.Broker, name string, mode push.Mode, h push.History) broker.Namespace {
	t.Helper()
	ns := broker.Namespace{Name: name, Mode: mode, History: h, Partitions: 1, Durable: true}
	if err := b.Open(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns
}

// follow attaches a recorder to a namespace's only partition.
func follow(t *testing.T, b *nats.Broker, namespace string) *recorder {
	t.Helper()
	r := newRecorder()
	if _, err := b.Attach(t.Context(), broker.Partition{Namespace: namespace}, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish publishes and returns the position.
func publish(t *testing.T, b *nats.Broker, channel, key, data string) push.Position {
	t.Helper()
	at, err := b.Publish(t.Context(), channel, push.Publication{Key: key, Data: []byte(data)}, broker.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// load returns the data of the visited publications of a channel.
func load(t *testing.T, b *nats.Broker, channel string) ([]string, broker.History) {
	t.Helper()
	var out []string
	h, err := b.Load(t.Context(), channel, broker.LoadOptions{}, func(p broker.Message) error {
		out = append(out, string(p.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, h
}

// head returns the newest position of a namespace's only partition.
func head(t *testing.T, b *nats.Broker, namespace string) push.Position {
	t.Helper()
	at, err := b.Head(t.Context(), broker.Partition{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return at
}
