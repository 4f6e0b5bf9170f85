package reconnect_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// stormLimit bounds the duration of the storm.
const stormLimit = 5 * time.Minute

// request is a numbered request, and its acknowledgement.
type request struct{ client, number uint32 }

func (q request) bytes() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, q.client), q.number)
}

func parse(msg []byte) request {
	return request{binary.BigEndian.Uint32(msg), binary.BigEndian.Uint32(msg[4:])}
}

// store is the server's persistent state. It survives restarts.
type store struct {
	mu   sync.Mutex
	has  map[request]int // how often each request arrived
	more int             // requests that arrived again
}

func (st *store) put(q request) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.has[q]++; st.has[q] > 1 {
		st.more++
	}
}

// depot is a server behind the proxy that keeps requests and acknowledges them.
type depot struct {
	srv    *session.Server
	served chan struct{}
}

func startDepot(t *testing.T, st *store, p *proxy) *depot {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &depot{served: make(chan struct{})}
	d.srv = session.NewServer(codec.Length{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			st.put(parse(msg))
			_ = s.Send(msg)
		},
		Drain: func(s *session.Session) { s.End(nil, nil) },
	}, &session.Options{Linger: time.Second, HandshakeTimeout: -1})
	go func() {
		defer close(d.served)
		_ = d.srv.Serve(ln)
	}()
	p.move(ln.Addr().String())
	return d
}

// stop stops the server, at once or gently.
func (d *depot) stop(ctx context.Context, gently bool) {
	if gently {
		_ = d.srv.Shutdown(ctx)
	}
	_ = d.srv.Close()
	<-d.served
}

// lane is the set of requests that were sent on the sessions of one slot and not acknowledged.
type lane struct {
	mu      sync.Mutex
	waiting map[request]struct{}
}

func (l *lane) add(q request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[q] = struct{}{}
}

// done removes a request and reports whether it was there.
func (l *lane) done(q request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.waiting[q]
	delete(l.waiting, q)
	return found
}

// resend sends the unacknowledged requests again.
func (l *lane) resend(_ context.Context, s *session.Session) error {
	l.mu.Lock()
	var all []request
	for q := range l.waiting {
		all = append(all, q)
	}
	l.mu.Unlock()
	for _, q := range all {
		if err := s.Send(q.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// sender is one client: a pool, and the requests that it has sent.
type sender struct {
	id    uint32
	pool  *reconnect.Pool
	storm *storm
	lanes []*lane
	sent  uint32
	acked atomic.Int64
}

// storm is the whole test: servers, proxy and senders.
type storm struct {
	*testing.T
	proxy   *proxy
	store   *store
	client  *session.Client
	senders []*sender
	lacking atomic.Int64  // the number of missing acknowledgements
	all     chan struct{} // receives a value when lacking is 0

	mu     sync.Mutex
	delays []time.Duration
}

// stormCap is the bound of each wait: Base is the same, so that all are drawn from it.
const stormCap = 300 * time.Millisecond

func (w *storm) add(id int) {
	c := &sender{id: uint32(id), storm: w} //nolint:gosec // it is small
	for range stormSessions {
		c.lanes = append(c.lanes, &lane{waiting: make(map[request]struct{})})
	}
	h := &session.Handler{Message: func(s *session.Session, msg []byte) {
		if s.Value().(*lane).done(parse(msg)) {
			c.acked.Add(1)
			if w.lacking.Add(-1) == 0 {
				w.all <- struct{}{}
			}
		}
	}}
	var err error
	c.pool, err = reconnect.New(w.client, &reconnect.Options{
		Addresses: []string{w.proxy.ln.Addr().String()}, Sessions: stormSessions, Base: stormCap, Cap: stormCap,
		Attach: func(slot int, _ string) *session.Attach { return &session.Attach{Handler: h, Value: c.lanes[slot]} },
		Resume: func(ctx context.Context, s *session.Session) error { return s.Value().(*lane).resend(ctx, s) },
		State: func(ev reconnect.Event) {
			if ev.State == reconnect.BackingOff {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.delays = append(w.delays, ev.Delay)
			}
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.senders = append(w.senders, c)
}

// send sends n requests, as soon as there is a session for each. The lane resends requests that a session has accepted.
func (c *sender) send(ctx context.Context, n int) error {
	for range n {
		c.sent++
		for q, taken := (request{c.id, c.sent}), false; !taken; {
			if err := c.pool.Wait(ctx, 1); err != nil {
				return err
			}
			s, err := c.pool.Pick("")
			if err != nil {
				continue // the session was lost meanwhile
			}
			l := s.Value().(*lane)
			l.add(q) // before Send, so that the next session of the slot resends it
			if taken = s.Send(q.bytes()) == nil; !taken && !l.done(q) {
				return fmt.Errorf("request %v was acknowledged, but not taken", q)
			}
		}
	}
	return nil
}

// round is one restart with other disturbances around it, while all clients send.
func (w *storm) round(ctx context.Context, d *depot, n int) *depot {
	w.lacking.Add(stormClients * stormRequests)
	errs := make(chan error, stormClients)
	for _, c := range w.senders {
		go func() { errs <- c.send(ctx, stormRequests) }()
	}
	var hit int
	switch n % 5 {
	case 0:
		hit = w.proxy.some(5, (*pair).reset)
	case 1:
		hit = w.proxy.some(5, func(x *pair) { _ = x.client.CloseWrite() }) // the server seems to have left
	case 2:
		hit = w.proxy.some(5, func(x *pair) { _ = x.server.CloseWrite() }) // the client seems to have left
	case 3:
		w.proxy.stall(true)
		hit = w.proxy.some(5, (*pair).reset)
	case 4:
		w.proxy.slow(5 * time.Millisecond)
	}
	if hit == 0 && n%5 != 4 {
		w.Errorf("round %d: no connection was hit", n)
	}
	d.stop(ctx, n%2 == 1 && n%5 != 3)
	d = startDepot(w.T, w.store, w.proxy)
	w.proxy.stall(false)
	for range w.senders {
		if err := testwait.Receive(w.T, errs); err != nil {
			w.Fatalf("round %d: %v", n, err)
		}
	}
	w.proxy.slow(0)
	for _, c := range w.senders {
		if err := c.pool.Wait(ctx, 0); err != nil {
			w.Fatalf("round %d: not all came back: %v: %+v", n, err, c.pool.Stats())
		}
	}
	return d
}

// Clients of many sessions recover from all disturbances of a server and a network, at random times. No acknowledged request is lost, all
// requests arrive in the end, and no descriptor leaks.
func TestStorm(t *testing.T) {
	before := descriptors(t)
	ctx, cancel := context.WithTimeout(context.Background(), stormLimit)
	defer cancel()
	w := &storm{
		T: t, proxy: newProxy(t), store: &store{has: make(map[request]int)}, all: make(chan struct{}, stormRounds),
		client: session.NewClient(codec.Length{}, nil, nil),
	}
	defer func() { // nothing waits for time to pass
		for _, c := range w.senders {
			_ = c.pool.Close()
			if st := c.pool.Stats(); st.Open+st.Connecting+st.BackingOff+st.Draining != 0 {
				t.Errorf("%+v", st)
			}
		}
		if n := w.client.Len(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		_ = w.client.Close()
		w.proxy.close()
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors, %d before", after, before)
		}
	}()
	d := startDepot(t, w.store, w.proxy)
	defer func() { d.stop(ctx, false) }()
	for id := range stormClients {
		w.add(id)
		w.senders[id].pool.Start()
	}
	for _, c := range w.senders {
		if err := c.pool.Wait(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	for n := range stormRounds {
		d = w.round(ctx, d, n)
	}
	w.check(ctx)
}

// check checks that all sessions are open again and all requests have arrived.
func (w *storm) check(ctx context.Context) {
	for w.lacking.Load() > 0 {
		select {
		case <-w.all:
		case <-ctx.Done():
			w.Fatalf("%d requests were not acknowledged", w.lacking.Load())
		}
	}
	w.store.mu.Lock() // requests that were sent twice may still arrive again
	defer w.store.mu.Unlock()
	total, st := 0, reconnect.Stats{}
	for _, c := range w.senders {
		total += int(c.sent)
		if int64(c.sent) != c.acked.Load() || c.sent != stormRounds*stormRequests {
			w.Errorf("client %d sent %d requests, %d were acknowledged", c.id, c.sent, c.acked.Load())
		}
		for n := range c.sent {
			if q := (request{c.id, n + 1}); w.store.has[q] == 0 {
				w.Errorf("%v is acknowledged and not in the store", q)
			}
		}
		one := c.pool.Stats()
		if one.Open != stormSessions {
			w.Errorf("client %d: %+v", c.id, one)
		}
		st.Dials, st.Failures, st.Reconnects = st.Dials+one.Dials, st.Failures+one.Failures, st.Reconnects+one.Reconnects
	}
	if len(w.store.has) != total || st.Reconnects < stormRounds*stormClients*stormSessions/2 {
		w.Errorf("%d of %d requests are in the store, after %d reconnects", len(w.store.has), total, st.Reconnects)
	}
	w.Logf("%d requests, %d came again; %d dials, %d failures, %d reconnects", total, w.store.more, st.Dials, st.Failures, st.Reconnects)
	w.spread()
}

// spread checks that no window of a tenth of the time has more or fewer of the waits than chance explains. The bound is seven standard
// deviations from its share, which chance exceeds once in 10¹¹ windows.
func (w *storm) spread() {
	const windows = 10
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make([]int, windows)
	for _, d := range w.delays {
		if d < 0 || d > stormCap {
			w.Errorf("a wait of %v", d)
			continue
		}
		counts[min(int(d*windows/stormCap), windows-1)]++
	}
	n := float64(len(w.delays))
	share, deviation := n/windows, math.Sqrt(n/windows*(1-1.0/windows))
	for i, c := range counts {
		if math.Abs(float64(c)-share) > 7*deviation {
			w.Errorf("%d of %d waits in window %d: %v", c, len(w.delays), i, counts)
		}
	}
	w.Logf("%d waits in windows of %v: %v; between %.0f and %.0f are expected of each", len(w.delays), stormCap/windows, counts,
		share-7*deviation, share+7*deviation)
	// Windows at other positions are checked as well, because waits may cluster across the edge of two windows.
	slices.Sort(w.delays)
	for i, first := 0, 0; i < len(w.delays); i++ {
		for w.delays[i]-w.delays[first] > stormCap/windows {
			first++
		}
		if got := float64(i - first + 1); got > share+8*deviation {
			w.Errorf("%.0f waits between %v and %v", got, w.delays[first], w.delays[i])
			return
		}
	}
}

// descriptors returns the number of open descriptors of the process, or 0 if the system does not tell.
func descriptors(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // so that the descriptors that package net keeps are open
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
