package discoverytest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/client"
)

// Operator is what [RunCalls] needs of a registry.
type Operator struct {
	// Address is where the registry listens.
	Address string
	// Open returns the registry as another process sees it that finds it at an address. The test ends what it began.
	Open func(t *testing.T, address string) Registry
	// Restart ends the registry without notice and starts it again, with its data or without, and returns when it answers.
	Restart func(wiped bool)
}

// process is a process that is connected to a registry.
type process struct {
	Registry
	wire *wire
}

func (o *Operator) connect(t *testing.T) process {
	t.Helper()
	w := newWire(t, o.Address)
	return process{o.Open(t, w.address()), w}
}

// RunCalls has callers make calls to the servers of a service while servers are killed, stop, and are cut off from the registry, and while the registry
// is restarted and loses its data. It logs what the callers have noticed, and how long it took until their set of servers was right.
func RunCalls(t *testing.T, o *Operator) {
	t.Helper()
	s := newScene(t, o)
	killed, drained, last := s.serve(), s.serve(), s.serve()
	s.settle("three servers are there")

	s.phase("one server is killed")
	killed.die()
	s.settle("the killed server has left the set")
	s.end(killed.address)

	s.phase("one server joins")
	s.serve()
	s.settle("the new server is there")
	s.end("")

	s.phase("one server is drained")
	drained.drain()
	s.settle("the drained server has left the set")
	s.end("")

	s.phase("one server is cut off from the registry")
	away := s.serve()
	s.settle("the new server is there")
	away.gone()
	away.process.wire.cut()
	s.settle("the server that is cut off has left the set")
	away.process.wire.mend()
	s.servers = append(s.servers, away)
	s.settle("the server that was cut off is back")
	s.end("")

	s.phase("the registry is restarted")
	o.Restart(false)
	s.more()
	s.serve()
	s.settle("a server that has joined since is there")
	s.end("")

	s.phase("the registry is wiped")
	o.Restart(true)
	s.more()
	s.others()
	s.serve()
	s.settle("a server that has joined since is there")
	s.end("")

	s.phase("another server is drained")
	last.drain()
	s.settle("the drained server has left the set")
	s.end("")
	s.stop()
}

// scene is the servers of a service, and callers.
type scene struct {
	t       *testing.T
	o       *Operator
	service string
	client  *client.Client
	empty   atomic.Bool // the set was empty after it was not
	servers []*member   // that should be in the set
	quit    context.Context
	stopped context.CancelFunc // of quit
	callers sync.WaitGroup

	name  string // of the phase
	began time.Time

	mu      sync.Mutex // guards what follows, which is of the phase
	calls   int
	slowest time.Duration
	errs    []failure
}

// failure is a call that has failed.
type failure struct {
	idempotent bool
	err        error
}

// member is a server of the service, in a process of its own.
type member struct {
	*rpc.Server
	scene        *scene
	address      string
	process      process
	registration discovery.Registration
}

type message struct{ Text string }

func newScene(t *testing.T, o *Operator) *scene {
	s := &scene{t: t, o: o, service: service(t), name: "begin", began: time.Now()}
	s.quit, s.stopped = context.WithCancel(context.WithoutCancel(t.Context()))
	s.client = client.New(&observed{discovery.NewSteady(o.connect(t), nil), &s.empty}, s.service, nil)
	t.Cleanup(func() {
		s.stopped()
		_ = s.client.Close()
		s.callers.Wait()
	})
	const callers = 8
	for i := range callers {
		s.callers.Go(func() { s.call(&client.Call{Idempotent: i%2 == 0}) })
	}
	return s
}

// observed is a resolver whose sets are looked at.
type observed struct {
	discovery.Resolver
	empty *atomic.Bool
}

func (o *observed) Watch(ctx context.Context, service string, update func([]discovery.Endpoint)) error {
	known := false
	return o.Resolver.Watch(ctx, service, func(set []discovery.Endpoint) {
		if known && len(set) == 0 {
			o.empty.Store(true)
		}
		known = known || len(set) > 0
		update(set)
	})
}

// call makes calls until the scene ends.
func (s *scene) call(call *client.Call) {
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-s.quit.Done():
			return
		case <-pace.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		in, out := message{fmt.Sprint(i)}, message{}
		call.Method = "Echo"
		began := time.Now()
		err := s.client.Do(ctx, call, &in, &out)
		took := time.Since(began)
		cancel()
		if err == nil && in != out {
			err = fmt.Errorf("%q is answered %q", in.Text, out.Text)
		}
		s.mu.Lock()
		s.calls++
		s.slowest = max(s.slowest, took)
		if err != nil {
			s.errs = append(s.errs, failure{call.Idempotent, err})
		}
		s.mu.Unlock()
	}
}

// serve starts a server and registers it.
func (s *scene) serve() *member {
	s.t.Helper()
	ln, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	must(s.t, "listen", err)
	m := &member{Server: rpc.NewServer(&rpc.Options{DrainGrace: Patience}), scene: s, address: ln.Addr().String(), process: s.o.connect(s.t)}
	rpc.Handle(m.Server, "Echo", func(_ context.Context, in *message) (*message, error) { return in, nil })
	served := make(chan error, 1)
	go func() { served <- m.Serve(ln) }()
	s.t.Cleanup(func() {
		_ = m.Close()
		<-served
	})
	m.registration, err = m.process.Register(s.t.Context(), s.service, discovery.Endpoint{Address: m.address})
	must(s.t, "register", err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Second)
		defer cancel()
		_ = m.registration.Close(ctx) // the registry may have gone
	})
	s.servers = append(s.servers, m)
	return m
}

// die ends the server's process without notice.
func (m *member) die() {
	m.gone()
	m.process.wire.cut()
	_ = m.Close()
}

// drain ends the server as it should.
func (m *member) drain() {
	m.gone()
	ctx, cancel := context.WithTimeout(m.scene.t.Context(), Patience)
	defer cancel()
	must(m.scene.t, "close the registration", m.registration.Close(ctx))
	must(m.scene.t, "shut down", m.Shutdown(ctx))
}

func (m *member) gone() {
	m.scene.servers = slices.DeleteFunc(m.scene.servers, func(other *member) bool { return other == m })
}

// addresses returns the servers that should be in the set, as text.
func (s *scene) addresses() string {
	var out []string
	for _, m := range s.servers {
		out = append(out, m.address)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// settle waits until the callers have the set that they should have, and are connected to all servers.
func (s *scene) settle(what string) {
	s.t.Helper()
	want := s.addresses()
	s.wait(what, func() bool {
		var got []string
		for _, one := range s.client.Servers() {
			if one.Conns == 0 {
				return false
			}
			got = append(got, one.Endpoint.Address)
		}
		return strings.Join(got, " ") == want
	})
	s.t.Logf("%s: %s after %v", s.name, what, time.Since(s.began).Round(time.Millisecond))
	s.more()
}

// others waits until the registry has told a process that has just begun to watch of all servers.
func (s *scene) others() {
	s.t.Helper()
	Watch(s.t, s.o.connect(s.t), s.service).Until(s.addresses())
	s.t.Logf("%s: all servers are in it again after %v", s.name, time.Since(s.began).Round(time.Millisecond))
}

// more waits until there were more calls.
func (s *scene) more() {
	s.t.Helper()
	calls := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls
	}
	const some = 50
	before := calls()
	s.wait("calls go on", func() bool { return calls() >= before+some })
}

// wait waits until something holds.
func (s *scene) wait(what string, holds func() bool) {
	s.t.Helper()
	timer, tick := time.NewTimer(Patience), time.NewTicker(time.Millisecond)
	defer timer.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timer.C:
			s.t.Fatalf("%s: it did not come about that %s; the callers see %+v", s.name, what, s.client.Servers())
		}
	}
}

// phase begins a phase.
func (s *scene) phase(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.began, s.calls, s.slowest = name, time.Now(), 0, 0
}

// end checks what the callers have noticed. Only calls to a server that was killed may have failed, and only those that must not be made again.
func (s *scene) end(killed string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.errs {
		code := rpc.CodeOf(f.err)
		mayFail := killed != "" && !f.idempotent && (code == rpc.Lost || code == rpc.Canceled) && strings.Contains(f.err.Error(), killed)
		if !mayFail {
			s.t.Errorf("%s: idempotent %t: %v", s.name, f.idempotent, f.err)
		}
	}
	s.t.Logf("%s: %d calls, %d failed, the slowest took %v", s.name, s.calls, len(s.errs), s.slowest.Round(time.Millisecond))
	s.errs = nil
	if s.empty.Load() {
		s.t.Errorf("%s: the set was empty", s.name)
	}
}

// stop ends the callers.
func (s *scene) stop() {
	s.t.Helper()
	s.stopped()
	s.callers.Wait()
	s.end("")
	ctx, cancel := context.WithTimeout(s.t.Context(), Patience)
	defer cancel()
	must(s.t, "shut the client down", s.client.Shutdown(ctx))
}
