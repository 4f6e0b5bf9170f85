package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// TestUnreachable: without a server, New returns within the given time an error that names the server, without secrets.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	refusing := newProxy(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, address := range map[string]string{"refuses": refusing.address(), "is silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			b, err := nats.New(ctx, &nats.Options{URL: "nats://user:password@" + address})
			if err == nil {
				_ = b.Close()
				t.Fatal("there is no error")
			}
			if text := err.Error(); !strings.Contains(text, address) || strings.Contains(text, "password") {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

// TestSilence: a connection that is open, but over which nothing passes, counts as lost after some seconds, and is made again when something does.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "")
	b := closing(t, open(t, &nats.Options{URL: p.url()}))
	if !b.Stats().Connected {
		t.Error("it is not connected")
	}
	p.proxy.silent.Store(true)
	testwait.True(t, "the connection counts as lost", func() bool { return !b.Stats().Connected })
	p.proxy.silent.Store(false)
	testwait.True(t, "the connection is made again", func() bool { return b.Stats().Connected })
}

// TestNoJetStream: a server without JetStream is refused.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	p := startPlain(t)
	b, err := nats.New(t.Context(), &nats.Options{URL: p.url(), Timeout: 2 * time.Second})
	if err == nil {
		_ = b.Close()
		t.Fatal("there is no error")
	}
	if !strings.Contains(err.Error(), "JetStream") {
		t.Errorf("the error is %q", err)
	}
}

// TestLost: while the server is away, every method fails at once with ErrBusy. When the server is back, everything continues by itself.
func TestLost(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "")
	b := closing(t, external(t, p))
	openNamespace(t, b, "s", push.Stream, push.History{})
	r := follow(t, b, "s")
	publish(t, b, "s:a", "", "before")
	r.awaitData(t, "before")
	p.kill()
	ctx := t.Context()
	methods := map[string]func() error{
		"publish": func() error {
			_, err := b.Publish(ctx, "s:a", push.Publication{Data: []byte("meanwhile")}, broker.PublishOptions{})
			return err
		},
		"load": func() error {
			_, err := b.Load(ctx, "s:a", broker.LoadOptions{}, func(broker.Message) error { return nil })
			return err
		},
		"head": func() error {
			_, err := b.Head(ctx, broker.Partition{Namespace: "s"})
			return err
		},
		"attach": func() error {
			_, err := b.Attach(ctx, broker.Partition{Namespace: "s"}, newRecorder())
			return err
		},
		"tell":       func() error { return b.Tell(ctx, "", nil) },
		"put lease":  func() error { return b.PutLease(ctx, broker.Lease{Key: "k"}, time.Minute) },
		"drop lease": func() error { return b.DropLease(ctx, "k") },
		"list leases": func() error {
			_, err := b.ListLeases(ctx, "")
			return err
		},
	}
	testwait.True(t, "the broker notices", func() bool { return errors.Is(methods["publish"](), broker.ErrBusy) })
	for name, do := range methods {
		testwait.True(t, name+" is refused", func() bool {
			err := do()
			if err == nil {
				t.Fatalf("%s succeeds without a server", name)
			}
			return errors.Is(err, broker.ErrBusy)
		})
	}
	p.start()
	for name, do := range methods {
		testwait.True(t, name+" works again", func() bool { return do() == nil })
	}
	testwait.True(t, "publish", func() bool {
		_, err := b.Publish(ctx, "s:a", push.Publication{Data: []byte("after")}, broker.PublishOptions{})
		return err == nil
	})
	r.awaitData(t, "after")
	if len(r.resets)+len(r.gaps) > 0 || r.data()[0] != "before" {
		t.Errorf("resets %v, gaps %v, messages %q", r.resets, r.gaps, r.data())
	}
}

// TestOlderStoreWhileOpen: if the server comes back with an older copy of its store, offsets will be assigned again, so the epoch changes.
func TestOlderStoreWhileOpen(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "")
	b := closing(t, external(t, p))
	openNamespace(t, b, "s", push.Stream, push.History{})
	r := follow(t, b, "s")
	publish(t, b, "s:a", "", "kept")
	p.kill()
	older := t.TempDir() + "/older"
	copyFolder(t, p.store, older)
	p.start()
	testwait.True(t, "publish", func() bool {
		_, err := b.Publish(t.Context(), "s:a", push.Publication{Data: []byte("lost")}, broker.PublishOptions{IdempotencyKey: "k"})
		return err == nil
	})
	r.awaitData(t, "lost")
	before := head(t, b, "s")
	p.kill()
	removeAll(t, p.store)
	copyFolder(t, older, p.store)
	p.start()
	r.await(t, "a new life", func() bool { return len(r.resets) > 0 })
	var at push.Position
	testwait.True(t, "publish", func() bool {
		var err error
		at, err = b.Publish(t.Context(), "s:a", push.Publication{Data: []byte("new")}, broker.PublishOptions{})
		return err == nil
	})
	r.awaitData(t, "new")
	if at.Epoch == before.Epoch || at.Epoch != head(t, b, "s").Epoch {
		t.Errorf("published at %v, and %v was known", at, before)
	}
	if got, _ := load(t, b, "s:a"); !slices.Equal(got, []string{"new"}) && !slices.Equal(got, []string{"kept", "new"}) {
		t.Errorf("loaded %q", got)
	}
}

// TestCloseWithoutServer: Close returns and leaves no goroutines although the server is gone.
func TestCloseWithoutServer(t *testing.T) {
	p := startProcess(t, "")
	before := goleak.IgnoreCurrent()
	b := external(t, p)
	openNamespace(t, b, "s", push.Stream, push.History{})
	r := follow(t, b, "s")
	if _, err := b.Listen(t.Context(), "node", func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	publish(t, b, "s:a", "", "1")
	r.awaitData(t, "1")
	p.kill()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestSlowFollower: a follower that blocks holds back publishers when the window is full, and not before, and misses nothing. A follower that
// attaches meanwhile is not delayed by it.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	b := closing(t, open(t, &nats.Options{Dir: t.TempDir(), Window: 50}))
	openNamespace(t, b, "s", push.Stream, push.History{})
	slow := newRecorder()
	slow.gate = make(chan struct{})
	release := sync.OnceFunc(func() { close(slow.gate) })
	defer release()
	if _, err := b.Attach(t.Context(), broker.Partition{Namespace: "s"}, slow); err != nil {
		t.Fatal(err)
	}
	fast := follow(t, b, "s")
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = b.Publish(t.Context(), fmt.Sprintf("s:%d", n%9), push.Publication{Data: fmt.Append(nil, n)}, broker.PublishOptions{})
	}
	if n--; !errors.Is(err, broker.ErrBusy) || n != 50 {
		t.Fatalf("publishing ended after %d with %v", n, err)
	}
	fast.awaitData(t, fmt.Sprint(n-1))
	release()
	testwait.True(t, "there is room again", func() bool {
		_, err := b.Publish(t.Context(), "s:a", push.Publication{Data: []byte("end")}, broker.PublishOptions{})
		return err == nil
	})
	slow.awaitData(t, "end")
	if got := len(slow.data()); got != n+1 {
		t.Errorf("%d messages were delivered, want %d", got, n+1)
	}
}

// TestEverythingAtOnce: many goroutines attach, detach, load, and use leases and control messages while the broker is closed.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())
	openNamespace(t, b, "s", push.Stream, push.History{Size: 5})
	openNamespace(t, b, "t", push.Table, push.History{Size: 5})
	var all sync.WaitGroup
	begun := make(chan struct{}, 64)
	again := func(do func(i int) error) {
		all.Go(func() {
			for i := 0; ; i++ {
				if err := do(i); errors.Is(err, broker.ErrClosed) {
					return
				}
				if i == 20 {
					begun <- struct{}{}
				}
			}
		})
	}
	ctx := context.Background()
	for range 2 {
		again(func(i int) error {
			_, err := b.Publish(ctx, fmt.Sprintf("s:%d", i), push.Publication{Data: []byte("1")}, broker.PublishOptions{})
			return err
		})
		again(func(i int) error {
			_, err := b.Publish(ctx, "t:1", push.Publication{Op: push.Op(i % 3), Key: fmt.Sprint(i % 7)}, broker.PublishOptions{})
			return err
		})
		again(func(int) error {
			a, err := b.Attach(ctx, broker.Partition{Namespace: "s"}, newRecorder())
			if err == nil {
				go a.Detach()
				a.Detach()
			}
			return err
		})
		again(func(int) error {
			_, err := b.Load(ctx, "t:1", broker.LoadOptions{}, func(broker.Message) error { return nil })
			return err
		})
		again(func(i int) error { return b.PutLease(ctx, broker.Lease{Key: fmt.Sprint(i % 9)}, time.Minute) })
		again(func(int) error {
			stop, err := b.Listen(ctx, "node", func([]byte) {})
			if err == nil {
				stop()
			}
			return err
		})
	}
	for range 12 {
		testwait.Receive(t, begun)
	}
	for range 3 {
		all.Go(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	testwait.Return(t, all.Wait)
}
