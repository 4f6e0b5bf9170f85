package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
)

// Each policy uses all servers.
func TestPolicies(t *testing.T) {
	var registry discovery.Memory
	for range 3 {
		newPlace(t, &registry)
	}
	for name, policy := range map[string]balance.Policy{"default": 0, "in turn": balance.RoundRobin, "least pending": balance.LeastPending, "by key": balance.ByKey} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, &registry, &client.Options{Balance: &balance.Options{Policy: policy}})
			connected(t, c, 3)
			got, call := map[string]int{}, &client.Call{}
			const calls = 300
			for i := range calls {
				call.Key = fmt.Sprint("key ", i)
				server, err := ask(c, call, "Echo", "a")
				if err != nil {
					t.Fatal(err)
				}
				got[server]++
			}
			for server, n := range got {
				if len(got) != 3 || n < calls/10 || policy == balance.RoundRobin && n != calls/3 {
					t.Errorf("%s has %d calls, of all %v", server, n, got)
				}
			}
		})
	}
}

// All clients send the calls with one key to the same server, while it is there.
func TestKey(t *testing.T) {
	var registry discovery.Memory
	places := map[string]*place{}
	for range 3 {
		p := newPlace(t, &registry)
		places[p.address] = p
	}
	byKey := &client.Options{Balance: &balance.Options{Policy: balance.ByKey}}
	one, two := newClient(t, &registry, byKey), newClient(t, &registry, byKey)
	connected(t, one, 3)
	connected(t, two, 3)
	where := func(c *client.Client, key string) string {
		server, err := ask(c, &client.Call{Key: key}, "Echo", "a")
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	before := map[string]string{}
	for i := range 50 {
		key := fmt.Sprint(i)
		before[key] = where(one, key)
		if other := where(two, key); other != before[key] {
			t.Errorf("the key %s is %s's, and %s's", key, before[key], other)
		}
	}
	gone := before["0"]
	places[gone].leave()
	leftWith(t, one, 2)
	for key, server := range before {
		if now := where(one, key); server != gone && now != server || now == gone {
			t.Errorf("%s has gone, and the key %s is %s's, which was %s's", gone, key, now, server)
		}
	}
}

// Servers of the caller's zone are preferred while there are any.
func TestZone(t *testing.T) {
	var registry discovery.Memory
	o := &rpc.Options{DrainGrace: time.Hour}
	near, far := newPlaceWith(t, &registry, discovery.Endpoint{Zone: "a"}, o), newPlaceWith(t, &registry, discovery.Endpoint{Zone: "b"}, o)
	c := newClient(t, &registry, &client.Options{Balance: &balance.Options{Zone: "a"}})
	connected(t, c, 2)
	call := &client.Call{}
	for range 20 {
		if server, err := ask(c, call, "Echo", "a"); err != nil || server != near.address {
			t.Fatal(server, err)
		}
	}
	near.leave()
	leftWith(t, c, 1)
	if server, err := ask(c, call, "Echo", "a"); err != nil || server != far.address {
		t.Fatal(server, err)
	}
}

// A server that leaves the set gets no new calls. Those under way end normally, and then the connection does.
func TestLeaves(t *testing.T) {
	var registry discovery.Memory
	old := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Linger: -1})
	connected(t, c, 1)
	done := start(c, &client.Call{}, "Wait")
	testwait.Receive(t, old.began)
	fresh := newPlace(t, &registry)
	connected(t, c, 2)
	old.leave()
	leftWith(t, c, 1)
	call := &client.Call{}
	for range 50 {
		if server, err := ask(c, call, "Echo", "a"); err != nil || server != fresh.address {
			t.Fatal(server, err)
		}
	}
	if n := old.server.Stats().Conns; n != 1 {
		t.Error("connections of the server that has left:", n)
	}
	testwait.Send(t, old.release, struct{}{})
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	testwait.True(t, "the connection ends", func() bool { return old.server.Stats().Conns == 0 })
	if list := c.Servers(); len(list) != 1 || list[0].Endpoint.Address != fresh.address || list[0].Conns != 1 {
		t.Errorf("%+v", list)
	}
}

// Calls to a server that has left do not last longer than DrainTimeout.
func TestDrainTimeout(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Linger: time.Nanosecond, DrainTimeout: time.Millisecond})
	connected(t, c, 1)
	done := start(c, &client.Call{}, "Wait")
	testwait.Receive(t, p.began)
	p.leave()
	if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost || !strings.Contains(err.Error(), p.address) {
		t.Error(err)
	}
}

// A server that leaves the set and returns keeps its connection; its new weight and labels are seen.
func TestReturns(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Linger: time.Hour})
	connected(t, c, 1)
	for i := range 20 {
		p.leave()
		leftWith(t, c, 0)
		p.register(discovery.Endpoint{Address: p.address, Weight: 1 + i})
		connected(t, c, 1)
		if _, err := ask(c, &client.Call{}, "Echo", "a"); err != nil {
			t.Fatal(err)
		}
		if list := c.Servers(); len(list) != 1 || list[0].Endpoint.Weight != 1+i {
			t.Fatalf("%+v", list)
		}
	}
	if n := c.Stats().Dials; n != 1 {
		t.Errorf("%d dials", n)
	}
}

// flapping is a resolver whose servers come and go, and stay in the end.
type flapping []discovery.Endpoint

func (f flapping) Watch(ctx context.Context, _ string, update func([]discovery.Endpoint)) error {
	for i := range 200 {
		update(f[i%len(f):])
		update(nil)
	}
	update(f)
	<-ctx.Done()
	return ctx.Err()
}

// Servers that leave while they are dialed, or before that, are no trouble.
func TestFlapping(t *testing.T) {
	var set flapping
	for range 3 {
		set = append(set, discovery.Endpoint{Address: newPlace(t, nil).address})
	}
	for _, linger := range []time.Duration{-1, time.Millisecond, time.Hour} {
		c := newClient(t, set, &client.Options{Linger: linger})
		connected(t, c, 3)
		for range 20 {
			if _, err := ask(c, &client.Call{}, "Echo", "a"); err != nil {
				t.Error(err)
			}
		}
	}
}

// While the set is empty, calls wait, or fail at once.
func TestEmpty(t *testing.T) {
	var registry discovery.Memory
	waits, fails := newClient(t, &registry, nil), newClient(t, &registry, &client.Options{WaitTimeout: -1})
	connected(t, fails, 0)
	if _, err := ask(fails, &client.Call{}, "Echo", "a"); !rpc.Refused(err) || !strings.Contains(err.Error(), service) {
		t.Error(err)
	}
	p := newPlace(t, &registry)
	connected(t, waits, 1)
	p.leave()
	leftWith(t, waits, 0)
	done := start(waits, &client.Call{}, "Echo")
	testwait.True(t, "the call waits", func() bool { return waits.Stats().Waits == 1 })
	p.register(discovery.Endpoint{Address: p.address})
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	connected(t, fails, 1)
	if _, err := ask(fails, &client.Call{}, "Echo", "a"); err != nil {
		t.Error(err)
	}
}

// A call that waits for a server ends with its context, and says what it has waited for.
func TestNoServer(t *testing.T) {
	refused := errors.New("no route")
	c := newClient(t, discovery.Addresses("a.test:1"), &client.Options{
		Dial: func(context.Context, discovery.Endpoint) (net.Conn, error) { return nil, refused },
	})
	testwait.True(t, "a dial has failed", func() bool { return c.Stats().Failures > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{"call": c.Call(ctx, "Echo", nil, nil), "wait": c.Wait(ctx, 1)} {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no route") || !strings.Contains(err.Error(), "a.test:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := c.Servers(); len(list) != 1 || !errors.Is(list[0].Err, refused) || list[0].Conns != 0 {
		t.Errorf("%+v", list)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Call(canceled, "Echo", nil, nil); rpc.CodeOf(err) != rpc.Canceled {
		t.Error(err)
	}
}

// ended is a resolver that reports a set, and ends.
type ended struct {
	set []discovery.Endpoint
	err error
}

func (e ended) Watch(_ context.Context, _ string, update func([]discovery.Endpoint)) error {
	if e.set != nil {
		update(e.set)
	}
	return e.err
}

// When the resolver ends, the servers that are known stay. If none are, calls fail at once.
func TestResolverEnds(t *testing.T) {
	p := newPlace(t, nil)
	known := newClient(t, ended{[]discovery.Endpoint{{Address: p.address}, {Address: "nonsense"}}, nil}, nil)
	connected(t, known, 1)
	if _, err := ask(known, &client.Call{}, "Echo", "a"); err != nil {
		t.Error(err)
	}
	unknown := newClient(t, ended{err: discovery.ErrService}, nil)
	if err := unknown.Wait(testwait.Context(t), 0); !errors.Is(err, discovery.ErrService) {
		t.Error(err)
	}
	if _, err := ask(unknown, &client.Call{}, "Echo", "a"); !errors.Is(err, discovery.ErrService) || rpc.CodeOf(err) != rpc.Unavailable {
		t.Error(err)
	}
}

// A server that refuses all calls is ejected: it gets no more of them than it takes to see that.
func TestEjection(t *testing.T) {
	var registry discovery.Memory
	bad, good := newPlace(t, &registry), newPlace(t, &registry)
	bad.overload("Ask")
	rpc.Handle(good.server, "Ask", func(_ context.Context, in *text) (*text, error) { return in, nil })
	c := newClient(t, &registry, &client.Options{
		Budget: rich(), Balance: &balance.Options{Policy: balance.RoundRobin, Ejection: &balance.Ejection{Failures: 3, Time: time.Hour}},
	})
	connected(t, c, 2)
	call := &client.Call{}
	for range 50 {
		if _, err := ask(c, call, "Ask", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if n := bad.calls(); n != 3 {
		t.Errorf("the server that refuses has got %d calls", n)
	}
	for _, s := range c.Servers() {
		if s.Ejected != (s.Endpoint.Address == bad.address) {
			t.Errorf("%+v", s)
		}
	}
}

// A server has as many connections as the options say, and each that is lost is replaced.
func TestConns(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Conns: 3})
	conns := func() bool { return p.server.Stats().Conns == 3 && len(c.Servers()) == 1 && c.Servers()[0].Conns == 3 }
	testwait.True(t, "there are three connections", conns)
	var waiting []<-chan error
	used := map[string]bool{}
	for range 3 {
		waiting = append(waiting, start(c, &client.Call{}, "Wait"))
		used[testwait.Receive(t, p.began).RemoteAddr().String()] = true
	}
	if len(used) != 3 {
		t.Errorf("the calls use %d connections", len(used))
	}
	if n := c.Servers()[0].Pending; n != 3 {
		t.Errorf("%d calls are under way", n)
	}
	for range waiting {
		testwait.Send(t, p.release, struct{}{})
	}
	for _, done := range waiting {
		if err := testwait.Receive(t, done); err != nil {
			t.Error(err)
		}
	}
}

// places is servers that have one address after the other.
type places struct {
	current atomic.Pointer[place]
	dials   atomic.Int64
}

func (p *places) dial(ctx context.Context, _ discovery.Endpoint) (net.Conn, error) {
	p.dials.Add(1)
	current := p.current.Load()
	if current == nil {
		return nil, errors.New("connection refused")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", current.address)
}

// A connection whose server is about to stop is replaced at once, gets no new calls, and ends with the calls under way.
func TestReplaced(t *testing.T) {
	var all places
	old, fresh := newPlace(t, nil), newPlace(t, nil)
	all.current.Store(old)
	c := newClient(t, discovery.Addresses("a.test:1"), &client.Options{Dial: all.dial})
	connected(t, c, 1)
	done := start(c, &client.Call{}, "Wait")
	testwait.Receive(t, old.began)
	all.current.Store(fresh)
	stopped := make(chan struct{})
	go func() { defer close(stopped); old.shutdown() }()
	testwait.True(t, "the other server is connected", func() bool { return fresh.server.Stats().Conns == 1 })
	for range 50 {
		if server, err := ask(c, &client.Call{}, "Echo", "a"); err != nil || server != fresh.address {
			t.Fatal(server, err)
		}
	}
	testwait.Send(t, old.release, struct{}{})
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	testwait.Receive(t, stopped)
}

// A server that cannot be reached is dialed again until it can.
func TestComesBack(t *testing.T) {
	var all places
	c := newClient(t, discovery.Addresses("a.test:1"), &client.Options{Dial: all.dial})
	for range 3 {
		before := c.Stats().Failures
		testwait.True(t, "dials fail", func() bool { return c.Stats().Failures >= before+3 })
		p := newPlace(t, nil)
		all.current.Store(p)
		if server, err := ask(c, &client.Call{}, "Echo", "a"); err != nil || server != p.address {
			t.Fatal(server, err)
		}
		all.current.Store(nil)
		p.kill()
	}
}

// shortLived is a connection that ends after the first read.
type shortLived struct {
	net.Conn
	reads atomic.Int64
}

func (c *shortLived) Read(p []byte) (int, error) {
	if c.reads.Add(1) > 1 {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// A connection that ends as soon as it is made, perhaps before the client has noted it, is replaced.
func TestLostAtOnce(t *testing.T) {
	p := newPlace(t, nil)
	var dials atomic.Int64
	c := newClient(t, discovery.Addresses("a.test:1"), &client.Options{Dial: func(ctx context.Context, _ discovery.Endpoint) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
		if dials.Add(1) <= 100 && err == nil {
			return &shortLived{Conn: conn}, nil
		}
		return conn, err
	}})
	testwait.True(t, "the connections are replaced", func() bool { return dials.Load() > 100 })
	if _, err := ask(c, &client.Call{Idempotent: true}, "Echo", "a"); err != nil {
		t.Error(err)
	}
}

// Calls wait for a server as long as the options say.
func TestWaitTimeout(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{-1: 0, 0: 5 * time.Second, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var all places
			c := client.New(discovery.Addresses("a.test:1"), service, &client.Options{Dial: all.dial, WaitTimeout: set})
			synctest.Wait()
			began := time.Now()
			if err := c.Call(t.Context(), "Echo", nil, nil); !rpc.Refused(err) || !strings.Contains(err.Error(), "a.test:1") {
				t.Error(err)
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("it has waited %v, want %v", waited, want)
			}
			_ = c.Close()
		})
	}
}

// The time between dials grows up to its bound.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all places
		c := client.New(discovery.Addresses("a.test:1"), service, &client.Options{Dial: all.dial})
		<-time.After(10 * time.Minute) // of the bubble
		if n := all.dials.Load(); n < 120 || n > 600 {
			t.Errorf("%d dials in ten minutes", n)
		}
		_ = c.Close()
	})
	for failed, most := range map[int]time.Duration{0: 0, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 50: 5 * time.Second, 5000: 5 * time.Second} {
		longest := time.Duration(0)
		for range 1000 {
			longest = max(longest, client.Backoff(&client.Options{}, failed))
		}
		if longest > most || longest < most/2 {
			t.Errorf("after %d failures the longest of 1,000 times is %v, want almost %v", failed, longest, most)
		}
	}
}
