package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
)

// limit bounds each wait of the tests.
const limit = 30 * time.Second

// farm is a set of servers in memory, by address, which echo lines.
type farm struct {
	mu      sync.Mutex
	servers map[string]*server
	stall   bool // dialing hangs
	dialed  map[string]int
}

type server struct {
	ln     *transport.MemoryListener
	srv    *session.Server
	served chan struct{}
}

func newFarm(addresses ...string) *farm {
	f := &farm{servers: make(map[string]*server), dialed: make(map[string]int)}
	for _, a := range addresses {
		f.up(a, nil)
	}
	return f
}

// up starts the server at an address, if it is down. Without a handler it echoes.
func (f *farm) up(address string, h *session.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers[address] != nil {
		return
	}
	if h == nil {
		h = &session.Handler{Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) }}
	}
	x := &server{
		ln: transport.NewMemory(0), served: make(chan struct{}),
		srv: session.NewServer(codec.Line{}, h, &session.Options{Engine: session.EngineGoroutine, HandshakeTimeout: -1}),
	}
	go func() {
		defer close(x.served)
		_ = x.srv.Serve(x.ln)
	}()
	f.servers[address] = x
}

// down stops the server at an address: its peers are cut off.
func (f *farm) down(address string) {
	f.mu.Lock()
	x := f.servers[address]
	delete(f.servers, address)
	f.mu.Unlock()
	if x != nil {
		_ = x.srv.Close()
		<-x.served
	}
}

// each calls do for every session of the server at an address.
func (f *farm) each(address string, do func(*session.Session)) {
	f.mu.Lock()
	x := f.servers[address]
	f.mu.Unlock()
	if x == nil {
		return
	}
	for s := range x.srv.Sessions() {
		do(s)
	}
}

func (f *farm) close() {
	f.mu.Lock()
	var all []string
	for a := range f.servers {
		all = append(all, a)
	}
	f.mu.Unlock()
	for _, a := range all {
		f.down(a)
	}
}

// setStall makes dialing hang, or not.
func (f *farm) setStall(stall bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall = stall
}

// dials returns how often an address was dialed.
func (f *farm) dials(address string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialed[address]
}

// dial implements Options.Dial.
func (f *farm) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	x, stall := f.servers[address], f.stall
	f.dialed[address]++
	f.mu.Unlock()
	switch {
	case stall:
		<-ctx.Done()
		return nil, ctx.Err()
	case x == nil:
		return nil, syscall.ECONNREFUSED
	}
	return x.ln.Dial(ctx)
}

// recorder implements Options.State. It checks that each slot changes its state in legal ways, and that changes of one slot are not reported
// concurrently.
type recorder struct {
	mu     sync.Mutex
	slots  map[int]*trail
	all    []reconnect.Event
	closed bool
	faults []string
	change chan struct{}
	also   func(reconnect.Event) // called after each event was recorded
}

type trail struct {
	state reconnect.State
	busy  bool
}

func newRecorder() *recorder {
	return &recorder{slots: make(map[int]*trail), change: make(chan struct{})}
}

// ways are the legal changes.
var ways = map[reconnect.State][]reconnect.State{
	0:                    {reconnect.Connecting},
	reconnect.Connecting: {reconnect.Open, reconnect.BackingOff, reconnect.Closed, reconnect.Failed},
	reconnect.Open:       {reconnect.BackingOff, reconnect.Draining, reconnect.Closed, reconnect.Failed},
	reconnect.BackingOff: {reconnect.Connecting, reconnect.Closed},
	reconnect.Draining:   {reconnect.Closed},
}

func (r *recorder) state(ev reconnect.Event) {
	t := r.begin(ev)
	defer func() {
		r.mu.Lock()
		t.busy = false
		r.mu.Unlock()
	}()
	if r.also != nil {
		r.also(ev)
	}
}

func (r *recorder) begin(ev reconnect.Event) *trail {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.slots[ev.Slot]
	if t == nil {
		t = new(trail)
		r.slots[ev.Slot] = t
	}
	legal := false
	for _, to := range ways[t.state] {
		legal = legal || to == ev.State
	}
	switch {
	case !legal:
		r.faultLocked("slot %d went from %v to %v", ev.Slot, t.state, ev.State)
	case t.busy:
		r.faultLocked("slot %d: two changes at a time", ev.Slot)
	case r.closed:
		r.faultLocked("slot %d is %v after Close", ev.Slot, ev.State)
	case (ev.Err == nil) != (ev.State == reconnect.Connecting || ev.State == reconnect.Open):
		r.faultLocked("slot %d is %v with the error %v", ev.Slot, ev.State, ev.Err)
	case ev.Session == nil && (ev.State == reconnect.Open || ev.State == reconnect.Draining):
		r.faultLocked("slot %d is %v without a session", ev.Slot, ev.State)
	case ev.Delay != 0 && ev.State != reconnect.BackingOff:
		r.faultLocked("slot %d is %v with a delay", ev.Slot, ev.State)
	}
	t.state, t.busy = ev.State, true
	r.all = append(r.all, ev)
	close(r.change)
	r.change = make(chan struct{})
	return t
}

func (r *recorder) faultLocked(format string, args ...any) {
	if len(r.faults) < 10 {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

// fault records another violation.
func (r *recorder) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faultLocked(format, args...)
}

// end is called after Close of the pool. It checks that every slot has ended; no event may follow.
func (r *recorder) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for id, t := range r.slots {
		if t.busy || t.state != reconnect.Closed && t.state != reconnect.Failed {
			r.faultLocked("slot %d is %v in the end (being told: %v)", id, t.state, t.busy)
		}
	}
	if len(r.faults) > 0 {
		return fmt.Errorf("%q", r.faults)
	}
	return nil
}

// events returns the events so far for which f returns true.
func (r *recorder) events(f func(reconnect.Event) bool) (out []reconnect.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.all {
		if f(ev) {
			out = append(out, ev)
		}
	}
	return out
}

func is(state reconnect.State) func(reconnect.Event) bool {
	return func(ev reconnect.Event) bool { return ev.State == state }
}

// await waits until f holds for n events, and returns them.
func (r *recorder) await(t *testing.T, n int, f func(reconnect.Event) bool) []reconnect.Event {
	t.Helper()
	for {
		r.mu.Lock()
		change := r.change
		r.mu.Unlock()
		if got := r.events(f); len(got) >= n {
			return got
		}
		select {
		case <-change:
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(time.Hour): // in a bubble: reached only if all goroutines wait
			t.Fatalf("%d of %d events: %v", len(r.events(f)), n, r.all)
		}
	}
}

// world is a farm, a client and a pool in fake time.
type world struct {
	*testing.T
	farm   *farm
	client *session.Client
	rec    *recorder
	pool   *reconnect.Pool
}

// inWorld runs a test in fake time with a pool that is closed at the end, and checks that no goroutine is left. change may change the options.
func inWorld(t *testing.T, change func(w *world, o *reconnect.Options), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, farm: newFarm("a"), rec: newRecorder()}
		w.client = session.NewClient(codec.Line{}, nil, &session.Options{Engine: session.EngineGoroutine})
		o := &reconnect.Options{
			Addresses: []string{"a"}, Handler: &session.Handler{}, Dial: w.farm.dial, State: w.rec.state,
			Base: time.Second, Cap: time.Minute, StableAfter: time.Hour,
			Jitter: func(most time.Duration) time.Duration { return most },
		}
		if change != nil {
			change(w, o)
		}
		pool, err := reconnect.New(w.client, o)
		if err != nil {
			t.Fatal(err)
		}
		w.pool = pool
		defer w.end()
		test(w)
	})
}

// end closes pool, client and servers, and checks that nothing is left.
func (w *world) end() {
	w.Helper()
	_ = w.pool.Close()
	if err := w.rec.end(); err != nil {
		w.Error(err)
	}
	if n := w.client.Len(); n != 0 {
		w.Errorf("%d sessions are left", n)
	}
	st := w.pool.Stats()
	if st.Open+st.Connecting+st.BackingOff+st.Draining+st.Pending != 0 {
		w.Errorf("in the end: %+v", st)
	}
	_ = w.client.Close()
	w.farm.close()
}

// wait waits until n sessions are open and the servers have accepted them.
func (w *world) wait(n int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
	defer cancel()
	if err := w.pool.Wait(ctx, n); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// delays returns the delays of the events.
func delays(events []reconnect.Event) (out []time.Duration) {
	for _, ev := range events {
		out = append(out, ev.Delay)
	}
	return out
}

var errPlanned = errors.New("planned")
