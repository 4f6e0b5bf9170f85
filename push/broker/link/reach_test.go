package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
)

// What a hub answers because it ends says nothing about the caller's context, and an operation that may be repeated is.
func TestHubGivesUp(t *testing.T) {
	var calls atomic.Int64
	h := &scripted{publish: func(context.Context) error { return context.Canceled }}
	h.load = func(send func([]byte) error) error {
		if calls.Add(1) == 1 {
			return context.Canceled
		}
		return send(wire.AppendHistory(nil, broker.History{Epoch: "e", Head: 1}))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	open(t, b)
	_, err := b.Publish(testwait.Context(t), "n:a", push.Publication{}, broker.PublishOptions{})
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, broker.ErrBusy) {
		t.Error(err)
	}
	if _, err := b.Load(testwait.Context(t), "n:a", broker.LoadOptions{}, nil); err != nil {
		t.Error(err)
	}
}

// A lease that may have been stored is not said to be refused.
func TestLeaseThatIsLost(t *testing.T) {
	h := &scripted{}
	end := make(chan struct{})
	h.putLease = func(context.Context) error {
		go h.server.Close()
		<-end
		return nil
	}
	h.begin(t)
	defer close(end)
	b := join(t, link.Options{Timeout: 200 * time.Millisecond, Connections: 1}, h.address)
	closes(t, b)
	openInTime(t, b)
	err := b.PutLease(testwait.Context(t), broker.Lease{Key: "k"}, time.Minute)
	if err == nil || errors.Is(err, broker.ErrBusy) {
		t.Error(err)
	}
}

// While a hub does not answer to Open, an operation ends with its context.
func TestOpenHangs(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	var opens atomic.Int64
	h := &scripted{interest: at(10), follow: func(_ int, send func([]byte)) { send(start("e", 10)) }}
	h.open = func() error {
		if opens.Add(1) > 1 {
			asked <- struct{}{}
			<-answer
		}
		return nil
	}
	h.begin(t)
	b := join(t, link.Options{Connections: 1}, h.address)
	closes(t, b)
	open(t, b)
	again := make(chan error, 1)
	go func() {
		again <- b.Open(testwait.Context(t), broker.Namespace{Name: "other", Partitions: 1})
	}()
	testwait.Receive(t, asked)
	ctx, cancel := context.WithTimeout(testwait.Context(t), 20*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() { second <- b.Open(ctx, broker.Namespace{Name: "third", Partitions: 1}) }()
	if err := testwait.Receive(t, second); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(answer)
	if err := testwait.Receive(t, again); err != nil {
		t.Error(err)
	}
}

// A visit function that calls the broker may return any of its errors.
func TestVisitError(t *testing.T) {
	h := &scripted{load: func(send func([]byte) error) error {
		_ = send(wire.AppendMessage(wire.AppendLoad(nil), &broker.Message{Channel: "n:a"}))
		return send(wire.AppendHistory(nil, broker.History{Epoch: "e"}))
	}}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	open(t, b)
	mine := rpc.Errorf(rpc.Lost, "of another call")
	_, err := b.Load(testwait.Context(t), "n:a", broker.LoadOptions{}, func(broker.Message) error { return mine })
	var got *rpc.Error
	if !errors.As(err, &got) || got != mine {
		t.Errorf("%v, want %v", err, mine)
	}
}

// While a hub accepts connections and says nothing, operations go to the next hub, and do not wait for the attempts to reach the first.
func TestSilentHub(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, ended := make(chan net.Conn, 10), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		_ = silent.Close()
		testwait.Receive(t, ended)
	})
	h := &scripted{}
	h.begin(t)
	p := &movable{changed: make(chan struct{})}
	p.set(silent.Addr().String(), h.address)
	b, err := link.New(&link.Options{Placement: p, Timeout: time.Hour, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		open(t, b)
	}()
	_ = testwait.Receive(t, accepted).Close() // the first attempt fails, and no other one ends
	testwait.Receive(t, opened)
	testwait.True(t, "there is another attempt", func() bool {
		publish(t, b, "n:a", 1)
		return len(accepted) > 0
	})
	defer func() { _ = (<-accepted).Close() }()
	publish(t, b, "n:a", 100)
}

// Stats is called while connections are made.
func TestStatsWhileDialing(t *testing.T) {
	h := &scripted{}
	h.begin(t)
	for range 10 {
		b := join(t, link.Options{Connections: 32, Timeout: time.Hour}, h.address)
		stop := make(chan struct{})
		var asking, calling sync.WaitGroup
		for range 2 {
			asking.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						b.Stats()
					}
				}
			})
		}
		for i := range 32 {
			calling.Go(func() {
				if err := b.Open(testwait.Context(t), broker.Namespace{Name: fmt.Sprint("n", i), Partitions: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		testwait.Return(t, calling.Wait)
		close(stop)
		testwait.Return(t, asking.Wait)
		_ = b.Close()
	}
}

// Publications that are nearly as large as a frame come one by one, also behind a small one. One that is larger than a frame is a gap of its channel, and
// nothing else is lost.
func TestLargePublications(t *testing.T) {
	h := newHub(t, hublink.Options{QueueBytes: 256 << 20}, memory.Options{MaxPublication: -1})
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &follower{hold: make(chan struct{})}
	attach(t, b, f, "n:a", "n:large", "n:b")
	put := func(channel string, size int) (last uint64) {
		at, err := h.broker.Publish(testwait.Context(t), channel, push.Publication{Data: make([]byte, size)}, broker.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return at.Offset
	}
	const fits = 16<<20 - 100
	for range 3 {
		put("n:a", 60_000)
		put("n:a", fits)
	}
	large := put("n:large", 17<<20)
	last := put("n:b", 10)
	close(f.hold)
	f.reaches(t, last)
	check := func() {
		t.Helper()
		got, _ := f.offsets()
		if len(got) != 7 || got[5] != large-1 || got[6] != last || len(f.gaps) != 1 || f.gaps["n:large"] != large || f.resets > 0 {
			t.Errorf("it got %v, gaps %v", got, f.gaps)
		}
	}
	check()
	n := 0
	count := func(broker.Message) error {
		n++
		return nil
	}
	if _, err := b.Load(testwait.Context(t), "n:a", broker.LoadOptions{}, count); err != nil || n != 6 {
		t.Errorf("a load found %d: %v", n, err)
	}
	if _, err := b.Load(testwait.Context(t), "n:large", broker.LoadOptions{}, count); !errors.Is(err, broker.ErrTooLarge) {
		t.Error(err)
	}
	h.stop() // what is missed comes with a catch-up
	f.mu.Lock()
	f.messages, f.gaps = nil, nil
	f.mu.Unlock()
	for range 3 {
		put("n:a", 60_000)
		put("n:a", fits)
	}
	large = put("n:large", 17<<20)
	last = put("n:b", 10)
	h.serve()
	f.reaches(t, last)
	f.mu.Lock()
	if g := f.gaps["n:large"]; g == last {
		f.gaps["n:large"] = large // a catch-up knows it less precisely
	}
	f.mu.Unlock()
	check()
}

// Peers without the secret that hold connections to a hub, more than the hub takes of gateways, do not keep a gateway out.
func TestStrangersHoldConnections(t *testing.T) {
	const most = 4
	h := newHub(t, hublink.Options{Secret: "s", MaxConns: most}, memory.Options{})
	for range 5 * most {
		c, err := rpc.Dial(testwait.Context(t), "tcp", h.address, &rpc.ConnOptions{Form: rpc.Raw})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		hello := &rpc.Request{Method: wire.Hello, Form: rpc.JSON}
		err = c.Do(testwait.Context(t), hello, &wire.HelloRequest{Versions: []int{wire.Version}}, nil)
		if code := rpc.CodeOf(err); code != wire.CodeDenied {
			t.Fatalf("a hello without the secret: %v", err)
		}
	}
	b := join(t, link.Options{Secret: "s"}, h.address)
	closes(t, b)
	openInTime(t, b)
	publish(t, b, "n:a", 1)
}

// A hub takes no more connections of gateways than it is to: the next gateway is told so, and is taken when another one has left.
func TestTooManyGateways(t *testing.T) {
	const most = 2
	h := newHub(t, hublink.Options{MaxConns: most}, memory.Options{})
	var all []broker.Broker
	for range most {
		b := join(t, link.Options{Connections: 1}, h.address)
		openInTime(t, b)
		all = append(all, b)
	}
	last := join(t, link.Options{Connections: 1, Timeout: 100 * time.Millisecond}, h.address)
	closes(t, last)
	err := last.Open(testwait.Context(t), broker.Namespace{Name: "n", Partitions: 1})
	if !errors.Is(err, broker.ErrBusy) || !strings.Contains(err.Error(), "as many as it takes") {
		t.Errorf("one gateway too many: %v", err)
	}
	if n := h.server.Links(); n != most {
		t.Errorf("%d links, want %d", n, most)
	}
	if err := all[0].Close(); err != nil {
		t.Error(err)
	}
	openInTime(t, last)
	if err := all[1].Close(); err != nil {
		t.Error(err)
	}
	testwait.True(t, "one link is left", func() bool { return h.server.Links() == 1 })
}
